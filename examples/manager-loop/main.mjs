// A loop that asks before each round whether this process leads. Start it in several terminals: one works at a time.
import { setTimeout as wait } from 'node:timers/promises'
import { Manager } from 'tenure'
import { fileStore } from 'tenure/stores/file'

const rounds = Number(process.env.ROUNDS ?? 5)
const identity = process.env.POD_NAME ?? `pod-${process.pid}`
const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())

const store = fileStore({ directory: './leases' })
const manager = new Manager({ store, election: 'jobs', identity, leaseDurationMs: 3_000 })
manager.onError = (error) => console.error(error)
const lease = manager.start({ signal: stopping.signal })

let done = 0
while (done < rounds && !stopping.signal.aborted) {
  if (!lease.isLeader()) {
    await wait(50)
    continue
  }
  console.log(`${identity} processes jobs, round ${++done}`)
  await wait(200)
}

await manager.stop()
console.log(`${identity} stopped`)
