import type { AssignmentReport, ShardEvent, UnownedState } from '../shards/changes.ts'
import type { MetricFamily } from './election-counters.ts'

type ShardLossReason = Extract<ShardEvent, { type: 'lost' }>['reason']

/** The metrics of one group of shards: what this process owns, and, while it coordinates, the state of the group. */
export class ShardMetrics {
  /** The shards that this process owns, with the member that owns them, because a process may start several. */
  readonly owned = new Set<string>()
  moves = 0
  readonly losses: Record<ShardLossReason, number> = { 'handed-over': 0, 'seat-lost': 0 }
  #assignment: { readonly report: AssignmentReport; readonly atMs: number } | undefined

  add(event: ShardEvent): void {
    if (event.type === 'gained') {
      this.moves += 1
      this.owned.add(`${event.shard} ${event.identity}`)
    }
    // A process no longer owns a shard from its revocation on, although its work still runs.
    if (event.type === 'revoked' || event.type === 'lost') this.owned.delete(`${event.shard} ${event.identity}`)
    if (event.type === 'lost') this.losses[event.reason] += 1
  }

  assign(report: AssignmentReport, nowMs: number): void {
    this.#assignment = { report, atMs: nowMs }
  }

  /** Drops what this process saw in an earlier term as the coordinator. */
  forgetAssignment(): void {
    this.#assignment = undefined
  }

  get assignment(): AssignmentReport | undefined {
    return this.#assignment?.report
  }

  /** For each state, the longest time that a shard has been without an owner. It grows between two reports. */
  longestUnowned(nowMs: number): readonly (readonly [state: string, ms: number])[] {
    if (!this.#assignment) return []
    const { report, atMs } = this.#assignment
    return Object.entries(report.longestUnownedMs).map(([state, ms]) => {
      const isEmpty = report.unowned[state as UnownedState] === 0
      return [state, isEmpty ? 0 : ms + nowMs - atMs]
    })
  }
}

export const shardFamilies: readonly MetricFamily[] = [
  {
    name: 'tenure_shards_owned',
    type: 'gauge',
    help: 'How many shards of the group this process owns. Absent without shards.',
    samples: ({ shards }) => (shards ? [{ value: shards.owned.size }] : []),
  },
  {
    name: 'tenure_shard_moves_total',
    type: 'counter',
    help: 'Shards that moved to this process.',
    samples: ({ shards }) => (shards ? [{ value: shards.moves }] : []),
  },
  {
    name: 'tenure_shard_losses_total',
    type: 'counter',
    help: 'Shards that this process no longer owns, by reason.',
    samples: ({ shards }) =>
      Object.entries(shards?.losses ?? {}).map(([reason, value]) => ({ labels: { reason }, value })),
  },
  {
    name: 'tenure_shards',
    type: 'gauge',
    help: 'Shards of the group by state, as the coordinator sees them. Absent in other processes.',
    samples(figures, nowMs) {
      const assignment = figures.isHeld(nowMs) ? figures.shards?.assignment : undefined
      if (!assignment) return []
      const counts = { owned: assignment.owned, ...assignment.unowned }
      return Object.entries(counts).map(([state, value]) => ({ labels: { state }, value }))
    },
  },
  {
    name: 'tenure_shard_unowned_seconds',
    type: 'gauge',
    help: 'The longest time that a shard in this state has been without an owner, as the coordinator sees it.',
    samples(figures, nowMs) {
      const longest = figures.isHeld(nowMs) ? (figures.shards?.longestUnowned(nowMs) ?? []) : []
      return longest.map(([state, ms]) => ({ labels: { state }, value: ms / 1_000 }))
    },
  },
  {
    name: 'tenure_shard_members',
    type: 'gauge',
    help: 'Members that can own shards of the group, as the coordinator sees them.',
    samples(figures, nowMs) {
      const assignment = figures.isHeld(nowMs) ? figures.shards?.assignment : undefined
      return assignment ? [{ value: assignment.members }] : []
    },
  },
]
