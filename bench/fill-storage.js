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
 * Writes groups with one leader each, as the active replica does, in the largest possible batches. Call before any
 * replica runs. A million campaigns would take longer than the measurements.
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
    if ((await storage.append(head, { head: next, groups })) !== 'done')
      throw new Error('Another process is writing to the storage.')
    head = next
    made += groups.length
  }
  await close()
}
