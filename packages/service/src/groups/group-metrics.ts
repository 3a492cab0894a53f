import type { Clock } from 'tenure'
import { groupMatcher } from './group-pattern.ts'
import type { Group } from './in-memory-group.ts'
import { isReservedGroup } from './reserved-groups.ts'

/**
 * How many groups have their own metrics. Each has a few series, and Prometheus keeps every series that it ever saw.
 */
export const maxMetricsGroups = 1_000

/** The state of one group, for alerts. */
export interface GroupMetricValues {
  readonly groupId: string
  /** Decided by the clock. Once its lease has expired, a group has no leader, even if the end could not be written. */
  readonly hasLeader: boolean
  readonly term: number
  /** 0 if there is no leader. */
  readonly remainingMs: number
  /** Live candidates besides the leader. */
  readonly standbys: number
  /** The time since a term last began or ended, as known to this process. */
  readonly sinceChangeMs: number
}

export interface GroupMetricsSnapshot {
  readonly shown: readonly GroupMetricValues[]
  /** How many groups match but have no metrics, because there are too many. */
  readonly leftOut: number
}

interface Tracked {
  /** Undefined if the group does not exist. */
  group: Group | undefined
  /**
   * When a term last began or ended, on the monotonic clock. Undefined if no term has begun or ended since the start.
   */
  changedAtMs: number | undefined
}

/**
 * The groups that the operator selected to have their own metrics. A group named in full always has metrics, even
 * before anyone has campaigned in it, because an alert must also see that case. Among the groups that match a pattern,
 * the ones added first have metrics. A group keeps its metrics for as long as it exists.
 */
export class GroupMetrics {
  readonly #clock: Pick<Clock, 'monotonicMs' | 'wallMs'>
  readonly #named: ReadonlySet<string>
  readonly #matches: (groupId: string) => boolean
  readonly #tracked = new Map<string, Tracked>()
  /** Matching groups beyond the limit, in the order in which they were added. */
  readonly #leftOut = new Map<string, Group>()
  #startedAtMs = 0

  /** `patterns` are at most {@link maxMetricsGroups} ids. `*` matches any characters. */
  constructor(patterns: readonly string[], clock: Pick<Clock, 'monotonicMs' | 'wallMs'>) {
    this.#clock = clock
    this.#named = new Set(patterns.filter((each) => !each.includes('*')))
    const matches = groupMatcher(patterns.filter((each) => each.includes('*')))
    this.#matches = (groupId) => matches(groupId) && !isReservedGroup(groupId)
    for (const id of this.#named) this.#track(id, undefined)
  }

  /** Changes before this moment are not known. */
  start(nowMs: number): void {
    this.#startedAtMs = nowMs
  }

  /** Adds an existing group. Adding it again has no effect. */
  add(group: Group): void {
    const tracked = this.#tracked.get(group.id)
    if (tracked) tracked.group = group
    else if (this.#matches(group.id)) {
      if (this.#tracked.size < maxMetricsGroups) this.#track(group.id, group)
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

  /** Records that a term of the group began or ended. */
  changed({ id, lease }: Group): void {
    const tracked = this.#tracked.get(id)
    if (!tracked) return
    const nowMs = this.#clock.monotonicMs()
    // The end may be written later than the lease expired.
    tracked.changedAtMs = lease?.end === 'expired' ? Math.min(nowMs, lease.expiresAtMs) : nowMs
  }

  snapshot(standbysOf: (group: Group) => number): GroupMetricsSnapshot {
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

  #figuresOf(groupId: string, tracked: Tracked, nowMs: number): Omit<GroupMetricValues, 'standbys'> {
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
    // The lease was granted before this process started, so only the wall clock gives the time.
    if (lease?.isLive(nowMs)) return Math.max(0, this.#clock.wallMs() - lease.acquiredAtMs)
    return nowMs - this.#startedAtMs
  }
}
