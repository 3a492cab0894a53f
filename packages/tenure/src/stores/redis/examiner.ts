import type { Clock } from '../../clock.ts'
import { TenureError } from '../../errors.ts'
import { adviseOnce } from '../../advice.ts'
import type { Link } from './link.ts'
import { informing } from './script.ts'

const oldestVersion = 6

/** How long a look counts: somebody may change the settings of a server that is connected. */
const examinedForMs = 60_000
/** How many keys of a cluster are remembered as examined. */
const remembered = 10_000

interface Examination {
  readonly atMs: number
  /** Undefined once it is over. */
  pending: Promise<void> | undefined
}

/** Looks at each server once per connection, before anything is kept there, and now and then afterwards. */
export class Examiner {
  readonly #clock: Clock
  readonly #known = new WeakMap<Link, Map<string, Examination>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Rejects if the server that has this key could drop it, only copies another one, or is too old; undefined if it was
   * found to be right just now.
   */
  examine(link: Link, key: string): Promise<void> | undefined {
    const places = this.#known.get(link) ?? new Map<string, Examination>()
    this.#known.set(link, places)
    // Each key of a cluster may be on a server of its own.
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

async function examined(link: Link, key: string): Promise<void> {
  const answers = await informedBy(link, key, ['server', 'memory', 'replication'])
  // One that is set to take writes keeps them to itself. Said as the others say it.
  if (answers.get('role') === 'slave') throw new Error('READONLY its role is "slave"')
  const version = answers.get('redis_version')
  if (version !== undefined && !(Number.parseInt(version) >= oldestVersion)) throw isTooOld(version)
  const policy = answers.get('maxmemory_policy')
  if (policy === undefined) {
    const text =
      'This Redis hides its settings. Make sure that its maxmemory-policy is not one of allkeys-*: such a server drops leases when it is full, and two could lead.'
    return adviseOnce('UNSAFE_SETTINGS', text)
  }
  if (policy.startsWith('allkeys-')) throw dropsKeys(policy)
}

/** The lines of some sections of INFO. */
export async function informedBy(link: Link, key: string, sections: string[]): Promise<Map<string, string>> {
  const answers = await link.evaluate(informing, [key], sections)
  const lines = (Array.isArray(answers) ? answers : []).flatMap((answer) => String(answer).split('\r\n'))
  return new Map(lines.map((line) => [line.split(':', 1)[0] ?? '', line.slice(line.indexOf(':') + 1)]))
}

function isTooOld(version: string): TenureError {
  const text = `This store needs Redis ${oldestVersion} or newer, and this one says that it is ${version}.`
  return new TenureError('BACKEND_UNAVAILABLE', text)
}

function dropsKeys(policy: string): TenureError {
  const text = `The maxmemory-policy of this Redis is ${policy}: when it is full it drops keys, leases too, and two could lead. Set noeviction or one of volatile-*, which keep the keys of this store, or use a Redis of its own.`
  return new TenureError('UNSAFE_SETTINGS', text)
}
