// Measures how late a standby leads after the lease of a silent holder has expired in the memory store.
import { setTimeout as sleep } from 'node:timers/promises'
import { Elector, memoryStore } from 'tenure'

const leaseDurationMs = 2_000

/** @param {number} rounds */
export async function measureExpiry(rounds) {
  const store = memoryStore()
  const lateMs = await Promise.all(Array.from({ length: rounds }, (_, round) => measureOne(store, round)))
  return { leaseDurationMs, lateMs }
}

/**
 * @param {import('tenure').LeaseStore} store
 * @param {number} round
 */
async function measureOne(store, round) {
  // Staggered, so that no round waits for the work of another.
  await sleep(round * 100)
  const election = `bench-${round}`
  const elector = new Elector({ store, election, leaseDurationMs })
  const claim = { election, holder: 'silent', attempt: 'silent', leaseDurationMs, afterTerm: 0, metadata: {} }
  const { signal } = new AbortController()
  // Taken before the call, so the lease ends slightly later than counted here, never earlier.
  const grantedAtMs = performance.now()
  await store.acquire(claim, { signal, timeoutMs: 1_000 })
  elector.start()
  await elector.waitForLeadership()
  const lateMs = performance.now() - grantedAtMs - leaseDurationMs
  await elector.stop()
  return lateMs
}
