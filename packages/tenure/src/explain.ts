import { messageOf } from '@tenure/internal/message'
import { beliefEndOf, deadlineOf, leadsAt, type ElectionState } from './election-state.ts'
import { fullName } from './errors.ts'
import type { LeaseRecord } from './lease-store.ts'

/** What `elector.explain()` gives: `summary` for people, the rest for programs. */
export interface Explanation {
  /** One or two sentences: why it leads or does not, and what it waits for. */
  readonly summary: string
  readonly election: string
  /** The store's namespace, if it has one. */
  readonly namespace: string | undefined
  readonly identity: string
  readonly isLeader: boolean
  readonly phase: 'idle' | 'standby' | 'leading' | 'ending' | 'stopped'
  /** The term led now, if any. */
  readonly term: number | undefined
  readonly highestTermSeen: number
  /** Who holds the lease as far as is known; undefined if nobody or nothing is known. */
  readonly leader: LeaseRecord | undefined
  /** Leading: until `isLeader()` turns false unless renewed. Standing by: until the lease seen runs out. */
  readonly leaseEndsInMs: number | undefined
  /** Until it tries next; undefined while a call is under way or nothing is planned. */
  readonly nextTryInMs: number | undefined
  readonly pendingWork: number
  readonly lastErrors: readonly { readonly at: number; readonly message: string }[]
}

interface Circumstances {
  readonly namespace: string | undefined
  readonly nowMs: number
  readonly heldMs: number
  readonly pendingWork: number
  readonly errors: readonly { readonly atMs: number; readonly error: unknown }[]
}

/** Puts a state into words. */
export function explain(state: ElectionState, now: Circumstances): Explanation {
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

function sentence(state: ElectionState, now: Circumstances, data: Omit<Explanation, 'summary'>): string {
  const election = fullName(data)
  switch (state.phase) {
    case 'idle':
      return `Not started: call start() to campaign for "${election}".`
    case 'stopped':
      return `Stopped: it no longer campaigns for "${election}"${data.pendingWork > 0 ? `, but ${pieces(data.pendingWork)} not settled` : ''}.`
    case 'leading':
      return data.isLeader
        ? `Leads "${election}" in term ${data.term}; unless renewed, that ends in ${seconds(data.leaseEndsInMs)}.`
        : `No longer leads "${election}": the lease was not renewed in time.`
    case 'ending': {
      const reason = state.ending?.reason
      if (state.ending?.releaseUntilMs !== undefined) return `Gives "${election}" back (${reason}).`
      const othersInMs = Math.max(0, beliefEndOf(state) - now.heldMs)
      const renewed = state.ending?.voluntary ? ' unless it is renewed' : ''
      const others = state.grant ? `; others may lead in ${seconds(othersInMs)}${renewed}` : ''
      return `Leads "${election}" no more (${reason}) and does not campaign, because ${pieces(data.pendingWork)} not settled${others}.`
    }
    case 'standby':
      return standbySentence(state, now, data)
  }
}

function standbySentence(state: ElectionState, now: Circumstances, data: Omit<Explanation, 'summary'>): string {
  const election = fullName(data)
  if (now.nowMs < state.cooldownUntilMs) {
    return `Stays out of "${election}" for another ${seconds(state.cooldownUntilMs - now.nowMs)} after stepping down.`
  }
  if (state.attempt && !state.flight)
    return `The last try to lead "${election}" failed; it will check whether that try succeeded.`
  if (data.leader) {
    return `Stands by: "${data.leader.holder}" holds "${election}" in term ${data.leader.term}; as seen from here its lease runs out in ${seconds(data.leaseEndsInMs)} unless renewed.`
  }
  if (state.view && !state.view.record) {
    return `Stands by: the record of "${election}" vanished, so it counts as held for another ${seconds(data.leaseEndsInMs)}.`
  }
  return `Campaigns for "${election}"; nobody is known to lead.`
}

function holderOf(state: ElectionState): LeaseRecord | undefined {
  const record = state.grant?.record ?? state.view?.record
  return record?.released ? undefined : record
}

function leaseEndsInMs(state: ElectionState, now: Circumstances): number | undefined {
  if (state.phase === 'leading') return Math.max(0, deadlineOf(state) - now.heldMs)
  if (state.phase !== 'standby' || !state.view || state.view.record?.released) return undefined
  return Math.max(0, (state.view.retryAtMs ?? state.view.seenAtMs + state.view.holdsForMs) - now.nowMs)
}

function nextTryInMs(state: ElectionState, now: Circumstances): number | undefined {
  if (state.phase !== 'standby' || state.flight) return undefined
  return Math.max(0, Math.max(state.tryAtMs, state.cooldownUntilMs) - now.nowMs)
}

function pieces(work: number): string {
  return work === 1 ? '1 piece of its work has' : `${work} pieces of its work have`
}

function seconds(ms: number | undefined): string {
  return `${((ms ?? 0) / 1000).toFixed(1)} s`
}
