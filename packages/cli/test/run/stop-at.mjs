/**
 * Preloaded into `tenure run`. It stops the process, as SIGSTOP from outside would, the first time it reaches the point
 * that STOP_AT names.
 *
 *   elected    it reports that it leads, and has done nothing else yet
 *   decides    it leads, and reads the time of day to see whether a run is due
 *   noted      the store has recorded the run that is about to start
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
// Intercept the call on the main thread. A write in another thread would let this process continue.
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
