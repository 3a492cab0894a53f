// redlock with its own lock extension, as shown in its manual. It is configured to wait for the lock.
import { createRequire } from 'node:module'
import { Redis } from 'ioredis'
import { takeTurns } from './take-turns.js'

// Its package.json does not export its types.
/** @type {typeof import('../../node_modules/redlock/dist/index.js')} */
const { default: Redlock } = createRequire(import.meta.url)('redlock')

/** @type {import('./take-turns.js').TakePart} */
export async function takePart({ url, election, leaseDurationMs, tell }) {
  const redlock = new Redlock([new Redis(url)], { retryCount: -1 })
  redlock.on('error', () => {})
  const acquire = () =>
    new Promise((resolve, reject) => {
      const over = redlock.using([election], leaseDurationMs, (signal) => {
        signal.addEventListener('abort', () => tell('lost'))
        return new Promise((release) => {
          resolve(() => {
            release(undefined)
            return over
          })
        })
      })
      over.catch(reject)
    })
  return takeTurns(acquire, tell)
}
