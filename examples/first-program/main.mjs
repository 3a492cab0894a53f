// The README's first program. Start it in two terminals: one leads, and the other takes over when the first exits or is
// killed.
import { setTimeout as wait } from 'node:timers/promises'
import { lead } from 'tenure'
import { fileStore } from 'tenure/stores/file'

const store = fileStore({ directory: './leases' })
console.log(`Process ${process.pid} waits until it leads.`)
await lead({ store, election: 'hello' }, async ({ term, signal }) => {
  console.log(`Process ${process.pid} leads in term ${term}, for 30 s.`)
  await wait(30_000, undefined, { signal })
})
