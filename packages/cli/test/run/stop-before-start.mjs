/**
 * Preloaded into `tenure run`. Once, after tenure has decided to run the command and before it orders the start, it
 * does what BEFORE_START says:
 *
 *   end      sends SIGTERM to the process
 *   stall    blocks its event loop for 3.5 s
 *
 * It writes to the file that ORDERS names: `decided` with the term of that decision, and the type and term of each
 * order to the supervisor.
 */
import children from 'node:child_process'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const log = (/** @type {string} */ text) => fs.appendFileSync(process.env.ORDERS ?? '', `${text}\n`)

const { rename } = fs.promises
let hasDecided = false
fs.promises.rename = async (from, to) => {
  if (String(to).endsWith('fence.json') && !hasDecided) {
    hasDecided = true
    const { term } = JSON.parse(fs.readFileSync(from, 'utf8'))
    log(`decided ${term}`)
    if (process.env.BEFORE_START === 'stall') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_500)
    else {
      // Handlers run in the order of registration, so this one runs after that of tenure.
      const handled = new Promise((resolve) => process.once('SIGTERM', resolve))
      process.kill(process.pid, 'SIGTERM')
      await handled
    }
  }
  return rename(from, to)
}

const { spawn } = children
children.spawn = /** @type {typeof spawn} */ (
  (/** @type {Parameters<typeof spawn>} */ ...args) => {
    const child = spawn(...args)
    const send = child.send?.bind(child)
    if (send) {
      child.send = /** @type {typeof send} */ (
        (/** @type {Parameters<typeof send>} */ ...sent) => {
          const order = /** @type {import('../../src/run/protocol.ts').Order} */ (sent[0])
          log(order.type === 'start' ? `start ${order.environment.TENURE_TERM}` : order.type)
          return send(...sent)
        }
      )
    }
    return child
  }
)
syncBuiltinESMExports()
