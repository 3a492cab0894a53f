import { systemClock, type Clock } from '../common/clock.ts'
import { checkClock } from '../engine/check-values.ts'
import { checkOptions } from '../common/check-options.ts'
import type { TtlStorage } from './ttl-store.ts'

/**
 * A TTL storage in this process's memory, for tests. Compares values with `Object.is`.
 *
 * @example
 * const clock = fakeClock()
 * const elections = createElections({ storage: memoryTtlStorage({ clock }), clock })
 */
export function memoryTtlStorage<K, V>(options: { clock?: Clock | undefined } = {}): TtlStorage<K, V> {
  checkOptions('memoryTtlStorage()', options, { clock: true })
  checkClock(options.clock)
  const clock = options.clock ?? systemClock
  const entries = new Map<K, { readonly value: V; readonly expiresAtMs: number }>()

  const put = (key: K, value: V, durationMs: number): true => {
    entries.set(key, { value, expiresAtMs: clock.monotonicMs() + durationMs })
    return true
  }
  const find = (key: K): { readonly value: V } | undefined => {
    const entry = entries.get(key)
    if (entry && entry.expiresAtMs > clock.monotonicMs()) return entry
    entries.delete(key)
    return undefined
  }
  const has = (key: K, value: V): boolean => {
    const entry = find(key)
    return entry !== undefined && Object.is(entry.value, value)
  }

  return {
    insertIfNotExist: async (key, value, durationMs) => !find(key) && put(key, value, durationMs),
    compareAndSwap: async (key, oldValue, newValue, durationMs) => has(key, oldValue) && put(key, newValue, durationMs),
    compareAndDelete: async (key, value) => has(key, value) && entries.delete(key),
  }
}
