import { randomUUID } from 'node:crypto'
import { load } from '../scripts/load.js'
import { groupName, hourMs } from './service-load.js'

const { openSharedStorage } = /** @type {typeof import('../packages/service/src/storage/open-storage.ts')} */ (
  await load('packages/service/src/storage/open-storage.ts')
)
const { systemClock: clock } = /** @type {typeof import('../packages/internal/src/clock.ts')} */ (
  await load('packages/internal/src/clock.ts')
)

/**
 * Groups with a leader each, written as the active replica writes them, in batches as large as can be. Before any replica
 * serves: a million campaigns would take longer than all that is measured.
 *
 * @param {string} store
 * @param {number} count
 */
export async function fillStorage(store, count) {
  const { storage, close } = await openSharedStorage(store, { newId: randomUUID, clock })
  let head = await storage.head()
  for (let made = 0; made < count;) {
    if (made % 100_000 < storage.maxBatch.groups && made > storage.maxBatch.groups) console.log(`${made} groups ...`)
    const groups = Array.from({ length: Math.min(storage.maxBatch.groups, count - made) }, (_, at) => ({
      id: groupName(made + at),
      record: { term: 1, node: 'node-1', attempt: randomUUID(), ttl: hourMs, at: Date.now() },
    }))
    const next = { ...head, seq: head.seq + 1, batch: randomUUID() }
    if ((await storage.append(head, { head: next, groups })) !== 'done') throw new Error('Somebody else writes.')
    head = next
    made += groups.length
  }
  await close()
}
