import { messageOf } from '@tenure/internal/message'
import { beliefEndOf, deadlineOf, leadsAt, type ElectionState } from './election-state.ts'
import { fullName } from '../common/errors.ts'
import type { LeaseRecord } from './lease-store.ts'

/** The result of `elector.explain()`: `summary` is for people, the other fields are for programs. */
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
  readonly pendingWork: number
  readonly lastErrors: readonly { readonly at: number; readonly message: string }[]
}

interface ExplainContext {
  readonly namespace: string | undefined
  readonly nowMs: number
  readonly heldMs: number
  readonly pendingWork: number
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
    pendingWork: now.pendingWork,
    lastErrors,
  }
  const troubles = lastErrors.length > 0 ? ` Last error: ${lastErrors.at(-1)?.message}` : ''
  return { summary: `${sentence(state, now, data)}${troubles}`, ...data }
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
  if (now.nowMs < state.cooldownUntilMs) {
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
  return `Campaigns for "${election}". No leader is known.`
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
  return Math.max(0, Math.max(state.tryAtMs, state.cooldownUntilMs) - now.nowMs)
}

function pieces(work: number): string {
  return work === 1 ? '1 piece of its work has' : `${work} pieces of its work have`
}

function seconds(ms: number | undefined): string {
  return `${((ms ?? 0) / 1000).toFixed(1)} s`
}
