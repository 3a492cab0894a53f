// Waits for leadership, works while it lasts, and waits again. Start it in several terminals, and kill the leader.
import { setTimeout as wait } from 'node:timers/promises'
import { Manager } from 'tenure'
import { fileStore } from 'tenure/stores/file'

const rounds = Number(process.env.ROUNDS ?? 5)
const identity = process.env.POD_NAME ?? `pod-${process.pid}`
const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())
const { signal } = stopping

const store = fileStore({ directory: './leases' })
const manager = new Manager({ store, election: 'reports', identity, leaseDurationMs: 3_000 })
manager.onError = (error) => console.error(error)
const lease = manager.start({ signal })

let done = 0
async function work() {
  console.log(`${identity} works, round ${done + 1}`)
  await wait(200)
}

try {
  while (done < rounds) {
    console.log(`${identity} waits`)
    const { term } = await lease.waitForLeadership({ signal })
    console.log(`${identity} leads in term ${term}`)
    while (done < rounds && (await lease.run(work))) {
      done += 1
      // Pause after every round, so that rounds without work do not keep the CPU busy. A shutdown ends the pause.
      await wait(50, undefined, { signal })
    }
  }
} catch (error) {
  if (!signal.aborted) throw error
}

await manager.stop()
console.log(`${identity} stopped`)
