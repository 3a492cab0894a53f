// The mutex of redis-semaphore, which extends the lock on its own. It is configured to wait for the lock.
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import { takeTurns } from './take-turns.js'

/** @type {import('./take-turns.js').TakePart} */
export async function takePart({ url, election, leaseDurationMs, tell }) {
  const mutex = new Mutex(new Redis(url), election, {
    lockTimeout: leaseDurationMs,
    acquireTimeout: Infinity,
    onLockLost: () => tell('lost'),
  })
  const acquire = async () => {
    await mutex.acquire()
    return () => mutex.release()
  }
  return takeTurns(acquire, tell)
}
