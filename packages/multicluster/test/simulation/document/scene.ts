/**
 * What is explored: candidates that know only the document, the resources of their clusters, relays, and the global store,
 * at one moment. Data only. Every clock says 0 now.
 */
import type { AcquireClaim, HeldClaim, LeaseRecord, Outcome } from '../../../../tenure/src/engine/lease-store.ts'
import type { MultiClusterLease, MultiClusterLeaseStatus } from '../../../../tenure/src/multicluster/resource.ts'
import type { Serving, Step } from '../../../src/spec-only-candidate.ts'
import type { Heartbeats } from '../../../src/spec-only-heartbeats.ts'
import { knownAttempt, renewTimeOf } from './attempts.ts'
import { nothingSeen, type ElectionSights } from '../../../src/observed-versions.ts'

/** What may go wrong. */
export const documentFaults = [
  'lost',
  'unheard',
  'late',
  'late-write',
  'relay-crash',
  'relay-stall',
  'relay-sleep',
  'crash',
  'stall',
  'stop',
  'replaced',
  'taken-over',
  'deleted-record',
] as const

/**
 * - `lost`: a call on the global store never arrives.
 * - `unheard`: it is carried out, and its relay hears nothing.
 * - `late`: the call, and its answer, take any time; the relay gives it up, or does not.
 * - `late-write`: a relay gives a write of the status up, and it is carried out later, if nothing else was written.
 * - `replaced`: a candidate is cut off while its resource is deleted, and another one of its name begins.
 * - `taken-over`: somebody else signals in the resource, once.
 */
export type DocumentFault = (typeof documentFaults)[number]

/** What does not change. Times are in ticks. */
export interface Setup {
  readonly expiry: 'observed' | 'own-clock'
  readonly leaseTicks: number
  /** How long a candidate tries to renew. */
  readonly deadlineTicks: number
  readonly retryTicks: number
  /** How long it waits for a confirmation. */
  readonly waitTicks: number
  /** Whether it waits for as long after a refusal too, as the document has it. */
  readonly waitsOn: boolean
  /** The cluster of each candidate. */
  readonly candidates: readonly number[]
  /** The cluster of each relay, and whether it answers first. */
  readonly relays: readonly { readonly cluster: number; readonly isFirst: boolean }[]
  /** Whether the clusters are alike. */
  readonly isSymmetric: boolean
  /** Whether relays look at the global store now and then. */
  readonly looks: boolean
  readonly faults: ReadonlySet<DocumentFault>
  readonly budget: number
}

export const tickMs = 1_000
export const election = 'e'
/** Nobody waits for what it signals. An identity is of one cluster here, so that it tells whose an attempt is. */
export function passerBy(cluster: number): string {
  return 'xy'[cluster] ?? ''
}

export const clusterNames = ['east', 'west'] as const

export function clusterName(cluster: number): string {
  return clusterNames[cluster] ?? ''
}

export function identityOf(who: number): string {
  return 'abc'[who] ?? ''
}

/** A claim on its way to the global store. */
export type Claimed =
  | { readonly verb: 'acquire'; readonly claim: AcquireClaim }
  | { readonly verb: 'renew' | 'release'; readonly claim: HeldClaim }

/** The global store. */
export interface Server {
  readonly record: LeaseRecord | undefined
  readonly highestTerm: number
  readonly lastDurationMs: number | undefined
  /** When the newest lease ends: nobody can have watched it for longer. A store that does not judge does not know. */
  readonly endsAtMs: number
}

/** What a call gives. */
export interface Answer {
  readonly outcome?: Outcome | undefined
  readonly found?: LeaseRecord | undefined
}

/** A call that takes its time. */
export interface Flight {
  readonly step: Step
  /** On its way back. */
  readonly answer?: Answer | undefined
}

type Life = 'running' | 'stalled' | 'asleep' | 'down'

/** A relay. */
export interface RelaySlot {
  readonly life: Life
  /** As it was last seen. */
  readonly resource?: MultiClusterLease | undefined
  readonly seen: ElectionSights
  /** The version that ran out here, and that was there after that. */
  readonly goneVersion?: string | undefined
  /** Never changed in place. */
  readonly beats: Pick<Heartbeats, 'current' | 'confirmation'>
  readonly serving?: Serving | undefined
  readonly flight?: Flight | undefined
  /** Until then a write is under way that does not end. */
  readonly busyUntilMs: number
}

/** A candidate. */
export interface Candidate {
  readonly life: Life
  /** When it looks again. */
  readonly nextAtMs: number
  /** The write for whose confirmation it waits. */
  readonly waits?: { readonly uid: string; readonly generation: number; readonly endsAtMs: number } | undefined
  /** The term that it believes in. 0: none. */
  readonly term: number
  readonly confirmedAtMs: number
  /** Since when it sees the same leader and the same renewal. */
  readonly observed: string
  readonly observedVersion: string
  readonly observedAtMs: number
}

/** Everything. */
export interface Scene {
  readonly server: Server
  /** By cluster. Undefined: there is none. */
  readonly resources: readonly (MultiClusterLease | undefined)[]
  readonly relays: readonly RelaySlot[]
  readonly candidates: readonly Candidate[]
  /** Processes that are cut off and believe until then. */
  readonly ghosts: readonly { readonly term: number; readonly endsAtMs: number }[]
  /** Calls whose relay does not wait any more. */
  readonly orphans: readonly Claimed[]
  /** Writes whose relay does not wait any more. */
  readonly lateWrites: readonly LateWrite[]
  readonly budget: number
  /**
   * Nothing has happened in this tick so far. A process that is down or stands still goes on only at dawn. What it does
   * then may come at any point of the tick, so that nothing is left out.
   */
  readonly dawn: boolean
  /** The highest term that was believed in, and by whom. A process that was replaced is -1. */
  readonly believed: { readonly term: number; readonly who: number }
  /** The last name. */
  readonly names: number
}

export interface LateWrite {
  readonly cluster: number
  readonly over: string
  /** What the status is to be. */
  readonly status: MultiClusterLeaseStatus
}

export const blankRelay: RelaySlot = {
  life: 'running',
  seen: nothingSeen,
  beats: { current: undefined, confirmation: undefined },
  busyUntilMs: 0,
}

export const downCandidate: Candidate = {
  life: 'down',
  nextAtMs: 0,
  term: 0,
  confirmedAtMs: 0,
  observed: '',
  observedVersion: '',
  observedAtMs: 0,
}

export function firstScene({ candidates, relays, budget }: Setup): Scene {
  return {
    server: { record: undefined, highestTerm: 0, lastDurationMs: undefined, endsAtMs: 0 },
    resources: clusterNames.map(() => undefined),
    relays: relays.map(() => blankRelay),
    candidates: candidates.map(() => downCandidate),
    ghosts: [],
    orphans: [],
    lateWrites: [],
    budget,
    dawn: true,
    believed: { term: 0, who: 0 },
    names: 0,
  }
}

/** When its belief ends, as client-go has it: it waits for a retry, and then renews until its deadline. */
export function beliefEndsAtMs({ confirmedAtMs }: Candidate, { retryTicks, deadlineTicks }: Setup): number {
  return confirmedAtMs + (retryTicks + deadlineTicks) * tickMs
}

export function believes(candidate: Candidate, setup: Setup): boolean {
  return candidate.term > 0 && beliefEndsAtMs(candidate, setup) > 0
}

/** The same list with one other element. */
export function withAt<T>(list: readonly T[], index: number, element: T): readonly T[] {
  return list.map((one, at) => (at === index ? element : one))
}

/** A candidate writes: it creates the resource if there is none. */
export function signal(scene: Scene, cluster: number, identity: string, setup: Setup): Scene {
  const before = scene.resources[cluster]
  const names = scene.names + 2
  const generation = (before?.generation ?? 0) + 1
  const uid = before?.uid ?? `n${names - 1}`
  knownAttempt(cluster, uid, identity, generation)
  const after: MultiClusterLease = {
    namespace: 'n',
    name: election,
    election: undefined,
    uid,
    generation,
    resourceVersion: `n${names}`,
    spec: {
      holderIdentity: identity,
      leaseDurationSeconds: (setup.leaseTicks * tickMs) / 1000,
      renewTime: renewTimeOf(generation),
      requests: {},
    },
    status: before?.status ?? { answers: {} },
  }
  return { ...scene, names, resources: withAt(scene.resources, cluster, after) }
}
