import { messageOf } from '@tenure/internal/message'
import { isName } from '@tenure/internal/names'
import { systemClock, type Clock } from '../clock.ts'
import type { ElectionPast } from '../election-log.ts'
import { Elector } from '../elector.ts'
import { show } from '../errors.ts'
import type { Observer } from '../events.ts'
import type { Leadership } from '../leadership.ts'
import type { Log } from '../log.ts'
import { LogLines } from '../log-lines.ts'
import { checkClock, checkLog, checkMethods, checkObserver, checkOneOf } from '../options.ts'
import { checkOptions, type OptionNames } from '../options/check-options.ts'
import { ttlLease, type TtlStorage } from '../stores/ttl.ts'
import { checkDuration } from '../timings.ts'

/** Of how many keys, the last ones that were tried, the log remembers outages and losses. */
const mostPasts = 100

/** What {@link createElections} takes. */
export interface ElectionsOptions<K, V> {
  readonly storage: TtlStorage<K, V>
  readonly clock?: Clock | undefined
  /** A renewal that throws is tried again until the deadline (default), or gives leadership up at once. */
  readonly onStorageError?: 'retry' | 'release' | undefined
  /** Called with errors of the storage and with everything else that happens. */
  readonly observer?: Observer | undefined
  /**
   * Where lines about losses, errors, recoveries and the release of a key that is not held go, such as `console`; or
   * false for none. Default: standard error; with an observer that has an `onEvent`, only what it cannot hear of.
   */
  readonly log?: Log | false | undefined
}

/** Elections by key, each won at most once per call. */
export interface Elections<K, V> {
  /**
   * Tries once to lead `key`. Gives a signal that aborts when leadership ends, or undefined if somebody else leads, the
   * storage failed, or `close()` was called. `value` must be unique to this acquisition: a late delete of an equal value
   * would free a successor.
   */
  acquireLeadership(key: K, value: V, options: { durationMs: number }): Promise<AbortSignal | undefined>
  /** Ends leadership of `key`: its signal aborts, then the key is deleted. A key that is not held is only remarked on. */
  releaseLeadership(key: K): Promise<void>
  /** Releases every key that is held; from then on nothing is acquired. */
  close(): Promise<void>
}

/**
 * Keyed elections over a TTL storage.
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
  const pasts = new Map<K, ElectionPast>()
  let closed = false
  let tries = 0

  const makeElector = (key: K, value: V, durationMs: number): Elector => {
    const elector = new Elector({
      store: ttlLease({ storage, key: () => key, value: () => value, clock }),
      // A key may be anything; what cannot be a name gets one. It is only shown.
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
        // close() may have come at the very moment of election.
        if (leadership.signal.aborted) return undefined
        held.set(key, elector)
        forgetWhenLost(key, elector, leadership)
        return leadership.signal
      } catch {
        // It stopped by itself: refused, or failed and reported.
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

function pastOf<K>(pasts: Map<K, ElectionPast>, key: K): ElectionPast {
  const past = pasts.get(key) ?? {}
  pasts.delete(key)
  pasts.set(key, past)
  const [oldest] = pasts.keys()
  if (pasts.size > mostPasts && oldest !== undefined) pasts.delete(oldest)
  return past
}
