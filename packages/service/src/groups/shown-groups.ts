import type { Clock } from 'tenure'
import { groupMatcher } from '../auth/rights.ts'
import type { Group } from './group.ts'
import { isOwnGroup } from './own-groups.ts'

/** How many groups have figures of their own: each has a few series, and Prometheus keeps every one that it ever saw. */
export const mostShown = 1_000

/** How one group stands, for alerts. */
export interface GroupFigures {
  readonly groupId: string
  /** By the clock: a lease that has run out is over, even if that could not be written. */
  readonly hasLeader: boolean
  readonly term: number
  /** 0 while nobody leads. */
  readonly remainingMs: number
  /** Live candidates beside the leader. */
  readonly standbys: number
  /** Since a term began or ended, as far as this process knows. */
  readonly sinceChangeMs: number
}

export interface ShownFigures {
  readonly shown: readonly GroupFigures[]
  /** How many were named, and have none because there are too many. */
  readonly leftOut: number
}

interface Tracked {
  /** Undefined: it does not exist. */
  group: Group | undefined
  /** When a term last began or ended, on the monotonic clock. Undefined: not since the start. */
  changedAtMs: number | undefined
}

/**
 * The groups that somebody named, so that they have figures of their own. Those that are named in full always have them,
 * even if nobody has campaigned yet: an alert must see that too. Of those that match a pattern, the ones that were there
 * first have them; a group that has them keeps them for as long as it exists.
 */
export class ShownGroups {
  readonly #clock: Pick<Clock, 'monotonicMs' | 'wallMs'>
  readonly #named: ReadonlySet<string>
  readonly #matches: (groupId: string) => boolean
  readonly #tracked = new Map<string, Tracked>()
  /** Those that match and are too many, in the order in which they came. */
  readonly #leftOut = new Map<string, Group>()
  #startedAtMs = 0

  /** `patterns` are ids, at most {@link mostShown}; `*` stands for any run of characters. */
  constructor(patterns: readonly string[], clock: Pick<Clock, 'monotonicMs' | 'wallMs'>) {
    this.#clock = clock
    this.#named = new Set(patterns.filter((each) => !each.includes('*')))
    const matches = groupMatcher(patterns.filter((each) => each.includes('*')))
    this.#matches = (groupId) => matches(groupId) && !isOwnGroup(groupId)
    for (const id of this.#named) this.#track(id, undefined)
  }

  /** Nothing is known of changes before this moment. */
  start(nowMs: number): void {
    this.#startedAtMs = nowMs
  }

  /** The group exists. Once more is no change. */
  add(group: Group): void {
    const tracked = this.#tracked.get(group.id)
    if (tracked) tracked.group = group
    else if (this.#matches(group.id)) {
      if (this.#tracked.size < mostShown) this.#track(group.id, group)
      else this.#leftOut.set(group.id, group)
    }
  }

  remove({ id }: Group): void {
    if (this.#leftOut.delete(id)) return
    const tracked = this.#tracked.get(id)
    if (!tracked) return
    tracked.group = undefined
    if (this.#named.has(id)) return
    this.#tracked.delete(id)
    const [next] = this.#leftOut.values()
    if (!next) return
    this.#leftOut.delete(next.id)
    this.#track(next.id, next)
  }

  /** A term of the group began or ended. */
  changed({ id, lease }: Group): void {
    const tracked = this.#tracked.get(id)
    if (!tracked) return
    const nowMs = this.#clock.monotonicMs()
    // It may have been possible only later to write that it had run out.
    tracked.changedAtMs = lease?.end === 'expired' ? Math.min(nowMs, lease.expiresAtMs) : nowMs
  }

  figures(standbysOf: (group: Group) => number): ShownFigures {
    const nowMs = this.#clock.monotonicMs()
    const shown = [...this.#tracked].map(([id, tracked]) => ({
      ...this.#figuresOf(id, tracked, nowMs),
      standbys: tracked.group ? standbysOf(tracked.group) : 0,
    }))
    return { shown, leftOut: this.#leftOut.size }
  }

  #track(id: string, group: Group | undefined): void {
    this.#tracked.set(id, { group, changedAtMs: undefined })
  }

  #figuresOf(groupId: string, tracked: Tracked, nowMs: number): Omit<GroupFigures, 'standbys'> {
    const { group } = tracked
    const lease = group?.lease
    const hasLeader = lease?.isLive(nowMs) ?? false
    return {
      groupId,
      hasLeader,
      term: lease?.term ?? group?.term ?? 0,
      remainingMs: hasLeader && lease ? lease.expiresAtMs - nowMs : 0,
      sinceChangeMs: this.#sinceChangeMs(tracked, nowMs),
    }
  }

  #sinceChangeMs({ group, changedAtMs }: Tracked, nowMs: number): number {
    const lease = group?.lease
    if (lease && !lease.ended && !lease.isLive(nowMs)) return nowMs - lease.expiresAtMs
    if (changedAtMs !== undefined) return nowMs - changedAtMs
    // From before the start: of a lease that goes on, the wall clock tells when it began.
    if (lease?.isLive(nowMs)) return Math.max(0, this.#clock.wallMs() - lease.acquiredAtMs)
    return nowMs - this.#startedAtMs
  }
}
