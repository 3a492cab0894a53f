import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import { warnOnce } from '../../log/advice.ts'
import type { RedisConnection } from './link.ts'
import { infoScript } from './scripts.ts'

const oldestVersion = 6

/** How long a check stays valid. Someone may change the settings of a server while it is connected. */
const examinedForMs = 60_000
/** The maximum number of cluster keys that are remembered as checked. */
const remembered = 10_000

interface Examination {
  readonly atMs: number
  /** Undefined once the check has finished. */
  pending: Promise<void> | undefined
}

/** Checks each server once per connection before anything is stored there, and periodically afterwards. */
export class ServerCheck {
  readonly #clock: Clock
  readonly #known = new WeakMap<RedisConnection, Map<string, Examination>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Rejects if the server that holds this key could evict it, is a replica, or is too old. Returns undefined if the
   * server passed a recent check.
   */
  examine(link: RedisConnection, key: string): Promise<void> | undefined {
    const places = this.#known.get(link) ?? new Map<string, Examination>()
    this.#known.set(link, places)
    // In a cluster, each key may be on another server.
    const place = link.isCluster ? key : ''
    const nowMs = this.#clock.monotonicMs()
    const last = places.get(place)
    if (last && nowMs - last.atMs < examinedForMs) return last.pending
    const pending = examined(link, key)
    const examination: Examination = { atMs: nowMs, pending }
    places.delete(place)
    places.set(place, examination)
    const [oldest] = places.keys()
    if (places.size > remembered && oldest !== undefined) places.delete(oldest)
    pending.then(
      () => (examination.pending = undefined),
      () => places.delete(place),
    )
    return pending
  }
}

async function examined(link: RedisConnection, key: string): Promise<void> {
  const answers = await readInfo(link, key, ['server', 'memory', 'replication'])
  // A writable replica keeps writes to itself. Throw the error that a read-only replica would return.
  if (answers.get('role') === 'slave') throw new Error('READONLY its role is "slave"')
  const version = answers.get('redis_version')
  if (version !== undefined && !(Number.parseInt(version) >= oldestVersion)) throw isTooOld(version)
  const policy = answers.get('maxmemory_policy')
  if (policy === undefined) {
    const text =
      'This Redis does not reveal its settings. Make sure that its maxmemory-policy is not one of allkeys-*: such a server evicts leases when it is full, and two candidates could lead at once.'
    return warnOnce('UNSAFE_SETTINGS', text)
  }
  if (policy.startsWith('allkeys-')) throw dropsKeys(policy)
}

/** Returns the lines of some sections of INFO, by name. */
export async function readInfo(link: RedisConnection, key: string, sections: string[]): Promise<Map<string, string>> {
  const answers = await link.evaluate(infoScript, [key], sections)
  const lines = (Array.isArray(answers) ? answers : []).flatMap((answer) => String(answer).split('\r\n'))
  return new Map(lines.map((line) => [line.split(':', 1)[0] ?? '', line.slice(line.indexOf(':') + 1)]))
}

function isTooOld(version: string): TenureError {
  const text = `This store needs Redis ${oldestVersion} or newer, but this server reports version ${version}.`
  return new TenureError('BACKEND_UNAVAILABLE', text)
}

function dropsKeys(policy: string): TenureError {
  const text = `The maxmemory-policy of this Redis is ${policy}: when it is full, it evicts keys, including leases, and two candidates could lead at once. Set noeviction or one of volatile-*, which keep the keys of this store, or use a dedicated Redis.`
  return new TenureError('UNSAFE_SETTINGS', text)
}
