// npm run demo:multicluster: two clusters on this machine, one leader, and what happens when something of it is gone.
import { load } from './load.js'

const { demo } = /** @type {typeof import('./multicluster-demo/demo.ts')} */ (
  await load('scripts/multicluster-demo/demo.ts')
)
await demo()
