/**
 * Rule 5 of the coordinator: the assignment is lost, so any member may own any shard. Before a shard is granted again,
 * every such member must have reported that it owns nothing, or must have ended (S1). Where the store forgets terms,
 * the reports also say which terms were used (S2).
 */
import { termOf, type MemberId, type ShardState } from './assignment.ts'
import type { CoordinatorEffect, CoordinatorState } from './coordinator.ts'
import { isHeld, reportedBy, type SeatRound } from './seats.ts'

/** How far a recovery is. */
export interface Recovery {
  /**
   * `read`: (a), reads all seats. `write`: (c), writes that every shard is unknown. `reread`: (d), reads all seats again.
   * `wait`: (e), waits for one lease and for the members. `free`: (f), writes that every shard is free.
   */
  readonly phase: 'read' | 'write' | 'reread' | 'wait' | 'free'
  /** When the current phase began. */
  readonly sinceMs: number
  /** The members found in (d) or later that may still own shards. */
  readonly awaited: readonly MemberId[]
  /** The attempts that have reported that they own nothing. */
  readonly cleared: readonly string[]
}

/** Returns the state of a recovery that has not read any seat. */
export function beginRecovery(): Recovery {
  return { phase: 'read', sinceMs: 0, awaited: [], cleared: [] }
}

/** Takes a complete read of all seats. */
export function checkedSeats(
  state: CoordinatorState,
  recovery: Recovery,
  round: SeatRound,
  effects: CoordinatorEffect[],
): CoordinatorState {
  const { lineage, term, settings } = state
  // (b) Checked at every read: a member may report a term only now. The attempt of such a report does not matter.
  const reportedTerm = Math.max(
    0,
    ...round.records.map((record) =>
      record?.report && record.report.lineage !== lineage ? termOf(record.report.seen) : 0,
    ),
  )
  if (reportedTerm >= term) {
    effects.push({ do: 'step-down', reason: `a member has seen term ${reportedTerm}`, afterTerm: reportedTerm })
    return state
  }
  const { nowMs, sentAtMs } = round
  if (recovery.phase === 'read') return { ...state, recovery: { ...recovery, phase: 'write', sinceMs: nowMs } }
  if (recovery.phase === 'reread' && sentAtMs < recovery.sinceMs) return state
  if (recovery.phase !== 'reread' && recovery.phase !== 'wait') return state
  // (d) The wait begins with the reply. A member without a record cannot renew, so it is over by the end of the wait.
  const sinceMs = recovery.phase === 'reread' ? nowMs : recovery.sinceMs
  const found = round.records.flatMap((record, seat) =>
    record && isHeld(record) ? [{ seat, attempt: record.attempt }] : [],
  )
  const known = new Set([...recovery.awaited.map(({ attempt }) => attempt), ...recovery.cleared])
  const awaited = [...recovery.awaited, ...found.filter(({ attempt }) => !known.has(attempt))]
  // (e) Each must have reported an epoch of this lineage with nothing running, or be over.
  const isCleared = (member: MemberId) => {
    const report = reportedBy(state.seats, member)
    return report?.lineage === lineage && report.running.length === 0
  }
  const cleared = awaited.filter(isCleared).map(({ attempt }) => attempt)
  const left = awaited.filter((member) => !isCleared(member) && !state.over.includes(member.attempt))
  const isDone = left.length === 0 && nowMs - sinceMs >= settings.shards.leaseDurationMs
  const next: Recovery = {
    phase: isDone ? 'free' : 'wait',
    sinceMs,
    awaited: left,
    cleared: [...recovery.cleared, ...cleared],
  }
  return { ...state, recovery: next }
}

/** (c), (f): returns the shards to write. */
export function recoveryDraft({ confirmed }: CoordinatorState, { phase }: Recovery): readonly ShardState[] {
  return confirmed.shards.map(() => ({ state: phase === 'free' ? 'free' : 'unknown' }))
}

/** Takes the confirmation of what (c) or (f) wrote. */
export function recoveryConfirmed(state: CoordinatorState, recovery: Recovery, nowMs: number): CoordinatorState {
  if (recovery.phase === 'free') return { ...state, recovery: undefined, over: [], waits: [] }
  return { ...state, recovery: { ...recovery, phase: 'reread', sinceMs: nowMs } }
}
