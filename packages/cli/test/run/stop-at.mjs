/**
 * Preloaded into `tenure run`: stops it, as SIGSTOP from outside does, when it comes for the first time to what STOP_AT
 * names.
 *
 *   elected    it tells that it leads, and has done nothing else yet
 *   decides    it leads, and looks at the time of day to see whether a run is due
 *   noted      the store has the note of the run that is about to be started
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/** @type {string | undefined} */
let point = process.env.STOP_AT

/** @param {string} name */
const pass = (name) => {
  if (point !== name) return
  point = undefined
  process.kill(process.pid, 'SIGSTOP')
}

const { now } = Date
Date.now = () => {
  if (point === 'decides' && new Error('Who asks?').stack?.includes('.lead ')) pass('decides')
  return now()
}
const { write } = fs
// Not by a thread of its own, which would let us go on meanwhile.
fs.write = /** @type {typeof write} */ (
  (/** @type {Parameters<typeof write>} */ ...args) => {
    if (Buffer.from(args[1]).includes('tenure: leads')) pass('elected')
    return write(...args)
  }
)
const { rename } = fs.promises
fs.promises.rename = (from, to) => {
  if (String(to).endsWith('fence.json')) pass('noted')
  return rename(from, to)
}
syncBuiltinESMExports()
