// A process that uses a file store as candidates do. After each answer, it waits until the parent has inspected the disk.
import { once } from 'node:events'

const [library = '', directory] = process.argv.slice(2)
const { fileStore } = await import(library)
const store = fileStore({ directory })
const call = () => ({ signal: AbortSignal.timeout(60_000) })

/**
 * @param {Promise<import('tenure').Outcome>} outcome
 */
async function told(outcome) {
  const answer = await outcome
  if (!answer.ok) throw new Error(`refused: ${JSON.stringify(answer)}`)
  const { record } = answer
  process.send?.(record)
  await once(process, 'message')
  return record
}

let afterTerm = 0
for (const attempt of ['first', 'second', 'third']) {
  const claim = { election: 'jobs', holder: 'ada', attempt, leaseDurationMs: 15_000, afterTerm, metadata: {} }
  const granted = await told(store.acquire(claim, call()))
  const renewed = await told(store.renew({ ...granted, checkpoint: attempt }, call()))
  await told(store.release(await told(store.renew(renewed, call())), call()))
  afterTerm = granted.term
}
await store.close()
process.disconnect?.()
