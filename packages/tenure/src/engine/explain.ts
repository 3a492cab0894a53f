import { messageOf } from '@tenure/internal/message'
import { beliefEndOf, deadlineOf, leadsAt, type ElectionState } from './election-state.ts'
import { fullName } from '../common/errors.ts'
import type { LeaseRecord } from './lease-store.ts'
import { expiresAtMs } from './observed-expiry.ts'
import { heldBack, newerGenerationOf, priorityOf, type HeldBackBy, type Priority } from './preference.ts'

/** The result of `elector.explain()`: `summary` is readable text, and the other fields are for programs. */
export interface Explanation {
  /** One or two sentences: why this elector leads or not, and what it is waiting for. */
  readonly summary: string
  readonly election: string
  /** The store's namespace, if it has one. */
  readonly namespace: string | undefined
  readonly identity: string
  readonly isLeader: boolean
  readonly phase: 'idle' | 'standby' | 'leading' | 'ending' | 'stopped'
  /** The term that this elector leads now. Undefined if it does not lead. */
  readonly term: number | undefined
  readonly highestTermSeen: number
  /** The known holder of the lease. Undefined if nobody holds it, or nothing is known. */
  readonly leader: LeaseRecord | undefined
  /**
   * While leading: the time until `isLeader()` turns false without a renewal. On standby: the time until the observed
   * lease expires.
   */
  readonly leaseEndsInMs: number | undefined
  /** The time until the next try. Undefined while a call is in flight or no try is planned. */
  readonly nextTryInMs: number | undefined
  /** The last answer from the option `eligible`. True without it. */
  readonly isEligible: boolean
  /** The priority that counts now: `lowest` for a while after this process stepped down as ineligible or stalled. */
  readonly priority: Priority
  /**
   * The generation of a present member, if it is higher than this process's own, which then counts as one step lower.
   * Undefined if none was seen, or its seat has expired.
   */
  readonly newerGeneration: number | undefined
  /**
   * Why this elector leaves a free lease to others, or stays out of the election. Undefined if it contends, or waits
   * for a lease that another process holds.
   */
  readonly heldBackBy: HeldBackBy | undefined
  readonly pendingWork: number
  /**
   * Whether a guard would release the lease if this process crashed now. `armed` only while there is something to
   * release.
   */
  readonly releaseOnCrash: 'off' | 'armed' | 'unarmed'
  /** The seat that this process holds among the members. Undefined if it holds none, and without `present`. */
  readonly seat: number | undefined
  readonly lastErrors: readonly { readonly at: number; readonly message: string }[]
}

interface ExplainContext {
  readonly namespace: string | undefined
  readonly nowMs: number
  readonly heldMs: number
  readonly pendingWork: number
  readonly guard: { readonly isArmed: boolean; readonly problem: string | undefined } | undefined
  readonly seat: number | undefined
  readonly errors: readonly { readonly atMs: number; readonly error: unknown }[]
}

/** Explains a state, in words and as data. */
export function explain(state: ElectionState, now: ExplainContext): Explanation {
  const isLeader = leadsAt(state, now.heldMs)
  const lastErrors = now.errors.map(({ atMs, error }) => ({ at: atMs, message: messageOf(error) }))
  const data = {
    election: state.settings.election,
    namespace: now.namespace,
    identity: state.settings.identity,
    isLeader,
    phase: state.phase,
    term: isLeader ? state.grant?.record.term : undefined,
    highestTermSeen: state.highestTerm,
    leader: holderOf(state),
    leaseEndsInMs: leaseEndsInMs(state, now),
    nextTryInMs: nextTryInMs(state, now),
    isEligible: state.preference.eligible,
    priority: priorityOf({ ...state, nowMs: now.nowMs }),
    newerGeneration: newerGenerationOf({ ...state, nowMs: now.nowMs })?.generation,
    heldBackBy: waitOf(state, now)?.by,
    pendingWork: now.pendingWork,
    releaseOnCrash: now.guard ? (now.guard.isArmed ? ('armed' as const) : ('unarmed' as const)) : ('off' as const),
    seat: now.seat,
    lastErrors,
  }
  const troubles = lastErrors.length > 0 ? ` Last error: ${lastErrors.at(-1)?.message}` : ''
  return { summary: `${sentence(state, now, data)}${unguarded(data, now)}${troubles}`, ...data }
}

function sentence(state: ElectionState, now: ExplainContext, data: Omit<Explanation, 'summary'>): string {
  const election = fullName(data)
  switch (state.phase) {
    case 'idle':
      return `Not started: call start() to campaign for "${election}".`
    case 'stopped':
      return `Stopped: it no longer campaigns for "${election}"${data.pendingWork > 0 ? `, but ${pieces(data.pendingWork)} not settled` : ''}.`
    case 'leading':
      return data.isLeader
        ? `Leads "${election}" in term ${data.term}. Without a renewal, leadership ends in ${seconds(data.leaseEndsInMs)}.`
        : `No longer leads "${election}": the lease was not renewed in time.`
    case 'ending': {
      const reason = state.ending?.reason
      if (state.ending?.releaseUntilMs !== undefined) return `Releasing the lease of "${election}" (${reason}).`
      const othersInMs = Math.max(0, beliefEndOf(state) - now.heldMs)
      const renewed = state.ending?.voluntary ? ' unless the lease is renewed' : ''
      const others = state.grant ? ` Another process may lead in ${seconds(othersInMs)}${renewed}.` : ''
      return `No longer leads "${election}" (${reason}) and does not campaign, because ${pieces(data.pendingWork)} not settled.${others}`
    }
    case 'standby':
      return standbySentence(state, now, data)
  }
}

function standbySentence(state: ElectionState, now: ExplainContext, data: Omit<Explanation, 'summary'>): string {
  const election = fullName(data)
  const wait = waitOf(state, now)
  if (wait?.by === 'ineligible') {
    const leader = data.leader ? ` "${data.leader.holder}" leads in term ${data.leader.term}.` : ' No leader is known.'
    return `Does not campaign for "${election}", because the option "eligible" returns false.${leader}`
  }
  if (wait?.by === 'cooldown') {
    return `Stays out of "${election}" for another ${seconds(state.cooldownUntilMs - now.nowMs)} after stepping down.`
  }
  if (state.attempt && !state.flight)
    return `The outcome of the last try to lead "${election}" is unknown. The next read will show it.`
  if (data.leader) {
    return `On standby: "${data.leader.holder}" holds "${election}" in term ${data.leader.term}. Without a renewal, its lease expires in ${seconds(data.leaseEndsInMs)}, as seen from here.`
  }
  if (state.view && !state.view.record) {
    return `On standby: the record of "${election}" was deleted, so the lease counts as held for another ${seconds(data.leaseEndsInMs)}.`
  }
  if (wait?.by === 'successor') {
    const successor = state.view?.record?.successor
    return `Leaves "${election}" to "${successor}" for another ${seconds(wait.untilMs - now.nowMs)}, because the last leader handed over to it.`
  }
  if (wait?.by === 'priority') {
    const why = data.priority === state.preference.priority ? '' : ' since it stepped down as ineligible or stalled'
    return `Leaves "${election}" to candidates of a higher priority for another ${seconds(wait.untilMs - now.nowMs)}, because its own priority is "${data.priority}"${why}.`
  }
  if (wait?.by === 'generation') {
    return `Leaves "${election}" to newer members for another ${seconds(wait.untilMs - now.nowMs)}, because a member of generation ${data.newerGeneration} is present, which is newer than its own.`
  }
  return `Campaigns for "${election}". No leader is known.`
}

/** Why a candidate does not contend. While another process holds the lease, its priority does not matter yet. */
function waitOf(state: ElectionState, { nowMs }: ExplainContext): ReturnType<typeof heldBack> {
  if (state.phase !== 'standby') return undefined
  const wait = heldBack({ ...state, nowMs })
  const isFree = !state.view || state.view.record?.released || nowMs >= expiresAtMs(state.view)
  return (wait?.by === 'priority' || wait?.by === 'generation') && !isFree ? undefined : wait
}

function holderOf(state: ElectionState): LeaseRecord | undefined {
  const record = state.grant?.record ?? state.view?.record
  return record?.released ? undefined : record
}

function leaseEndsInMs(state: ElectionState, now: ExplainContext): number | undefined {
  if (state.phase === 'leading') return Math.max(0, deadlineOf(state) - now.heldMs)
  if (state.phase !== 'standby' || !state.view || state.view.record?.released) return undefined
  return Math.max(0, (state.view.retryAtMs ?? state.view.seenAtMs + state.view.holdsForMs) - now.nowMs)
}

function nextTryInMs(state: ElectionState, now: ExplainContext): number | undefined {
  if (state.phase !== 'standby' || state.flight) return undefined
  const untilMs = waitOf(state, now)?.untilMs ?? -Infinity
  return Math.max(0, Math.max(state.tryAtMs, untilMs) - now.nowMs)
}

function pieces(work: number): string {
  return work === 1 ? '1 piece of its work has' : `${work} pieces of its work have`
}

function seconds(ms: number | undefined): string {
  return `${((ms ?? 0) / 1000).toFixed(1)} s`
}

function unguarded({ isLeader }: Omit<Explanation, 'summary'>, { guard }: ExplainContext): string {
  if (!isLeader || !guard || guard.isArmed) return ''
  const because = guard.problem === undefined ? '' : `, because ${guard.problem}`
  return ` If this process crashes, the lease is left to expire${because}.`
}
