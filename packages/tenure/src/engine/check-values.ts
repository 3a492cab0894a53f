import { isObject } from '@tenure/internal/objects'
import type { Clock } from '../common/clock.ts'
import { invalidOption } from '../common/errors.ts'
import type { Observer } from './events.ts'
import type { LeaseStore, Metadata } from './lease-store.ts'
import type { Log } from '../log/log.ts'
import { checkMembers, checkMethods } from '../common/check-options.ts'

/** The maximum size of metadata, as JSON in UTF-8. */
export const metadataLimitBytes = 4096
/** The maximum size of a checkpoint in a store that does not state its own limit, in UTF-8. */
export const usualCheckpointLimitBytes = 4096
/** The maximum size of a checkpoint in the stores of this library, in UTF-8. */
export const ownCheckpointLimitBytes = 32_768

/** The maximum size of a checkpoint in this store, in UTF-8. */
export function checkpointLimitOf({ checkpointLimitBytes }: Pick<LeaseStore, 'checkpointLimitBytes'>): number {
  return checkpointLimitBytes ?? usualCheckpointLimitBytes
}

/** Checks that options are an object. */
export function checkObject(option: string, value: unknown): asserts value is object {
  if (!isObject(value)) throw invalidOption(option, value, 'it must be an object')
}

/** Throws unless `store` has the members of a lease store. */
export function checkStore(store: unknown): asserts store is LeaseStore {
  checkMethods('store', store, ['read', 'acquire', 'renew', 'release'], 'a LeaseStore such as memoryStore()')
  checkMembers('store', store as object, ['look', 'watch', 'list', 'forget', 'examine', 'close'])
}

export function checkClock(clock: unknown): asserts clock is Clock | undefined {
  if (clock === undefined) return
  const methods = ['monotonicMs', 'machineMs', 'bootMs', 'wallMs', 'setTimer', 'random', 'randomId']
  checkMethods('clock', clock, methods, 'a Clock such as fakeClock()')
}

export function checkObserver(observer: unknown): asserts observer is Observer | undefined {
  if (observer === undefined) return
  checkObject('observer', observer)
  for (const name of ['onEvent', 'onCall']) {
    const listener: unknown = Reflect.get(observer, name)
    if (listener !== undefined && typeof listener !== 'function') {
      throw invalidOption(`observer.${name}`, listener, 'it must be a function')
    }
  }
  checkMembers('observer', observer, ['onEvent', 'onCall'])
}

export function checkLog(log: unknown): asserts log is Log | false | undefined {
  if (log === undefined || log === false) return
  checkMethods('log', log, ['info', 'warn', 'error'], 'false, or a log such as console')
}

export function checkSignal(signal: unknown): asserts signal is AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return
  throw invalidOption('signal', signal, 'it must be an AbortSignal')
}

/** Throws unless the option is true or false. */
export function checkBoolean(option: string, value: unknown): asserts value is boolean {
  if (typeof value !== 'boolean') throw invalidOption(option, value, 'it must be true or false')
}

/** Throws unless the option is one of these strings. */
export function checkOneOf<T extends string>(
  option: string,
  value: unknown,
  choices: readonly T[],
): asserts value is T {
  if (choices.some((choice) => choice === value)) return
  throw invalidOption(option, value, `it must be one of ${choices.map((choice) => `"${choice}"`).join(', ')}`)
}

/**
 * Checks that metadata is a small JSON object. Returns a copy, so that later changes by the caller cannot reach a
 * record.
 */
export function copyMetadata(metadata: unknown): Metadata {
  const rule = `it must be a plain JSON object of at most ${metadataLimitBytes} bytes`
  const isPlain =
    typeof metadata === 'object' &&
    metadata !== null &&
    [Object.prototype, null].includes(Object.getPrototypeOf(metadata))
  if (!isPlain) throw invalidOption('metadata', metadata, rule)
  let copy: unknown
  try {
    const text = JSON.stringify(metadata)
    copy = Buffer.byteLength(text) > metadataLimitBytes ? undefined : JSON.parse(text)
  } catch {
    // JSON cannot represent the value: it has a cycle, a big integer, or a toJSON that returns nothing.
  }
  if (!isObject(copy)) throw invalidOption('metadata', metadata, rule)
  return copy as Metadata
}
