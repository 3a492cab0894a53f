// A write that arrives late. A leader prepares it, pauses, and loses its leadership in the meantime. By then the
// resource's fence has seen a higher term, and rejects the write.
import { isTenureError, lead, memoryStore } from 'tenure'
import { createFence } from 'tenure/fencing'

const store = memoryStore()
const fence = createFence({ resource: 'report' })
let report = 'nothing'

/** @param {number} term @param {string} text */
const write = (term, text) =>
  fence.run(term, () => {
    report = text
    console.log(`term ${term} wrote "${text}"`)
  })

const late = await lead({ store, election: 'report', identity: 'a' }, async ({ term }) => {
  await write(term, 'draft of a')
  return () => write(term, 'last words of a')
})

await lead({ store, election: 'report', identity: 'b' }, ({ term }) => write(term, 'final of b'))

try {
  await late()
} catch (error) {
  if (!isTenureError(error)) throw error
  console.log(`refused with ${error.code}: ${error.message}`)
}
console.log(`the report is "${report}"`)
