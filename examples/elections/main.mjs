// Elections by key, in a storage whose entries expire. Two services compete for the same key. Both run in this process,
// so that the storage can be in memory. Real ones would use Redis, or anything else with the same three operations.
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { createElections } from 'tenure'
import { memoryTtlStorage } from 'tenure/stores'

/** @type {import('tenure').TtlStorage<string, string>} */
const storage = memoryTtlStorage()
const first = createElections({ storage })
// `console` or a pino logger would also work.
const log = {
  info() {},
  warn: (/** @type {string} */ line) => console.log(`second remarks: ${line}`),
  error: (/** @type {string} */ line) => console.log(`second reports: ${line}`),
}
const second = createElections({ storage, log })

// Each acquisition needs a unique value. With equal values, a late delete would release the successor's lease.
const value = () => `service:${randomUUID()}`

const held = await first.acquireLeadership('invoices', value(), { durationMs: 600 })
console.log(`first leads: ${held !== undefined}`)
console.log(`second leads: ${(await second.acquireLeadership('invoices', value(), { durationMs: 600 })) !== undefined}`)

await wait(1_000)
console.log(`first still leads, for it was renewed: ${held?.aborted === false}`)

await second.releaseLeadership('invoices')
await first.releaseLeadership('invoices')
console.log(`first was told to stop: ${held?.aborted}`)
console.log(`second leads: ${(await second.acquireLeadership('invoices', value(), { durationMs: 600 })) !== undefined}`)

await first.close()
await second.close()
console.log(
  `after close nobody leads: ${(await second.acquireLeadership('invoices', value(), { durationMs: 600 })) === undefined}`,
)
