import { messageOf } from '@tenure/internal/message'
import { isName } from '@tenure/internal/names'
import { systemClock, type Clock } from '../common/clock.ts'
import type { LogHistory } from '../engine/election-log.ts'
import { Elector } from '../engine/elector.ts'
import { show } from '../common/errors.ts'
import type { Observer } from '../engine/events.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { Log } from '../log/log.ts'
import { LogLines } from '../log/rate-limited-log.ts'
import { checkClock, checkLog, checkObserver, checkOneOf } from '../engine/check-values.ts'
import { checkMethods, checkOptions, type OptionNames } from '../common/check-options.ts'
import { ttlLease, type TtlStorage } from '../store-kit/ttl-store.ts'
import { checkDuration } from '../engine/timings.ts'

/** The log remembers outages and losses for this many keys, those that were tried most recently. */
const maxLogHistories = 100

/** Options of {@link createElections}. */
export interface ElectionsOptions<K, V> {
  readonly storage: TtlStorage<K, V>
  readonly clock?: Clock | undefined
  /** What to do when a renewal throws: `retry` until the deadline (default), or `release` leadership immediately. */
  readonly onStorageError?: 'retry' | 'release' | undefined
  /** Receives errors from the storage and all other events. */
  readonly observer?: Observer | undefined
  /**
   * Where to log losses, errors, recoveries, and releases of keys that are not held, such as `console`. False disables
   * logging. Default: standard error. If the observer has an `onEvent`, only lines that have no event are logged.
   */
  readonly log?: Log | false | undefined
}

/** Elections by key. Each call to `acquireLeadership` wins at most once. */
export interface Elections<K, V> {
  /**
   * Tries once to lead `key`. Returns a signal that aborts when leadership ends. Returns undefined if another process
   * leads, the storage failed, or `close()` was called. `value` must be unique to this acquisition. Otherwise a late
   * delete of an equal value would free the lease of a successor.
   */
  acquireLeadership(key: K, value: V, options: { durationMs: number }): Promise<AbortSignal | undefined>
  /**
   * Ends leadership of `key`: aborts its signal, then deletes the key. If the key is not held, it only logs a warning.
   */
  releaseLeadership(key: K): Promise<void>
  /** Releases every key that is held. Afterwards nothing can be acquired. */
  close(): Promise<void>
}

/**
 * Elections by key in a storage with expiring keys (TTL).
 *
 * @example
 * const elections = createElections<string, string>({ storage })
 * const held = await elections.acquireLeadership('reports', `${host}:${randomUUID()}`, { durationMs: 5_000 })
 * if (held) await report({ signal: held })
 * await elections.close()
 */
export function createElections<K, V>(options: ElectionsOptions<K, V>): Elections<K, V> {
  const names: OptionNames<typeof options> = {
    storage: true,
    clock: true,
    onStorageError: true,
    observer: true,
    log: true,
  }
  checkOptions('createElections()', options, names)
  const { storage, clock, onStorageError = 'retry', observer, log } = options
  checkMethods('storage', storage, ['insertIfNotExist', 'compareAndSwap', 'compareAndDelete'], 'a TTL storage')
  checkOneOf('onStorageError', onStorageError, ['retry', 'release'])
  checkClock(clock)
  checkObserver(observer)
  checkLog(log)
  const lines = LogLines.of(clock ?? systemClock, log)
  const isObserved = log === undefined && observer?.onEvent !== undefined
  const held = new Map<K, Elector>()
  const trying = new Set<Elector>()
  const pasts = new Map<K, LogHistory>()
  let closed = false
  let tries = 0

  const makeElector = (key: K, value: V, durationMs: number): Elector => {
    const elector = new Elector({
      store: ttlLease({ storage, key: () => key, value: () => value, clock }),
      // A key may be any value. A key that is not a valid name gets a generated one, which is used only for display.
      election: isName(key) ? key : typeof key === 'number' ? String(key) : `elections-${(tries += 1)}`,
      clock,
      leaseDurationMs: durationMs,
      renewIntervalMs: durationMs / 2,
      renewDeadlineMs: durationMs * 0.8,
      retryIntervalMs: durationMs / 10,
      observer,
      log,
    })
    elector.continueLog(pastOf(pasts, key))
    elector.onEvent = (event) => {
      if (event.type !== 'renew-failed' || onStorageError !== 'release') return
      const why = `because a renewal failed (onStorageError: 'release'): ${messageOf(event.error)}`
      const { election: name } = elector
      if (!isObserved) lines?.write('error', `gave up leadership of "${name}" ${why}`, { name })
      void elector.stop()
    }
    return elector
  }

  const forgetWhenLost = (key: K, elector: Elector, { signal }: Leadership): void => {
    const forget = () => {
      if (held.get(key) === elector) held.delete(key)
    }
    if (signal.aborted) forget()
    else signal.addEventListener('abort', forget, { once: true })
  }

  return {
    async acquireLeadership(key, value, options) {
      checkOptions('acquireLeadership()', options, { durationMs: true })
      const { durationMs } = options
      checkDuration('durationMs', durationMs, 100)
      if (closed) return undefined
      const elector = makeElector(key, value, durationMs)
      trying.add(elector)
      try {
        elector.start({ until: 'refused' })
        const leadership = await elector.waitForLeadership()
        // close() may have been called at the moment of election.
        if (leadership.signal.aborted) return undefined
        held.set(key, elector)
        forgetWhenLost(key, elector, leadership)
        return leadership.signal
      } catch {
        // The elector stopped on its own: it was refused, or its call failed and was reported.
        return undefined
      } finally {
        trying.delete(elector)
      }
    },
    async releaseLeadership(key) {
      const elector = held.get(key)
      if (!elector)
        return lines?.write('warn', `leadership of key ${show(key)} is not held, so there is nothing to release`)
      held.delete(key)
      await elector.stop()
    },
    async close() {
      closed = true
      const electors = [...held.values(), ...trying]
      held.clear()
      await Promise.all(electors.map((elector) => elector.stop()))
    },
  }
}

function pastOf<K>(pasts: Map<K, LogHistory>, key: K): LogHistory {
  const past = pasts.get(key) ?? {}
  pasts.delete(key)
  pasts.set(key, past)
  const [oldest] = pasts.keys()
  if (pasts.size > maxLogHistories && oldest !== undefined) pasts.delete(oldest)
  return past
}
