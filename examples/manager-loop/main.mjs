// A loop of rounds that runs only while this process leads. Start it in several terminals: one works at a time. On
// SIGTERM the round in progress finishes before another process works.
import { setTimeout as wait } from 'node:timers/promises'
import { Manager } from 'tenure'
import { fileStore } from 'tenure/stores/file'

const rounds = Number(process.env.ROUNDS ?? 5)
const identity = process.env.POD_NAME ?? `pod-${process.pid}`
const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())
const { signal } = stopping

const store = fileStore({ directory: './leases' })
const manager = new Manager({ store, election: 'jobs', identity, leaseDurationMs: 3_000 })
manager.onError = (error) => console.error(error)
const lease = manager.start({ signal })

let done = 0
async function processJobs() {
  console.log(`${identity} processes jobs, round ${done + 1}`)
  await wait(Number(process.env.ROUND_MS ?? 200))
  console.log(`${identity} is done with round ${done + 1}`)
}

while (done < rounds && !signal.aborted) {
  if (await lease.run(processJobs)) done += 1
  // Pause after every round, so that rounds without work do not keep the CPU busy. A shutdown ends the pause.
  await wait(50, undefined, { signal }).catch(() => {})
}

await manager.stop()
console.log(`${identity} stopped`)
