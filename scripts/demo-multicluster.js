// npm run demo:multicluster: shows two clusters on this machine with one leader, and what happens when a part fails.
import { load } from './load.js'

const { demo } = /** @type {typeof import('./multicluster-demo/demo.ts')} */ (
  await load('scripts/multicluster-demo/demo.ts')
)
await demo()
