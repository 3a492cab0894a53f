// The engine itself, with two electors in one process. One leads, works and steps down, and the other takes over.
import { setTimeout as wait } from 'node:timers/promises'
import { Elector, memoryStore } from 'tenure'

const store = memoryStore()
const [first, second] = ['a', 'b'].map(
  (identity) => new Elector({ store, election: 'payments', identity, leaseDurationMs: 3_000 }),
)
if (!first || !second) throw new Error('There are two.')

/** @param {Elector} elector */
async function tell(elector) {
  // The loop ends after the last event, when the elector has stopped.
  for await (const event of elector.events()) {
    if (event.type === 'elected') console.log(`${elector.identity} is elected, term ${event.term}`)
    if (event.type === 'lost') console.log(`${elector.identity} has lost term ${event.term}: ${event.reason}`)
  }
}
const told = Promise.all([tell(first), tell(second)])

/** @param {import('tenure').Leadership} leadership */
async function work({ identity, signal }) {
  await wait(60_000, undefined, { signal }).catch(() => undefined)
  await wait(100) // finishing what was begun takes a moment
  console.log(`${identity} has finished its work`)
}

first.start()
const leadership = await first.waitForLeadership()
leadership.waitUntil(work(leadership))
await leadership.setCheckpoint('paid up to invoice 17')
second.start()
console.log(`a explains: ${first.explain().summary}`)

await first.stepDown()
const next = await second.waitForLeadership()
console.log(`b continues where a stopped: ${next.checkpoint}`)
console.log(`a explains: ${first.explain().summary}`)

await Promise.all([first.stop(), second.stop()])
await told
