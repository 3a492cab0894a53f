/**
 * The model state at one moment: spec-only candidates, the resources of their clusters, relays, and the global store.
 * Data only. Every clock shows 0 now.
 */
import type { AcquireClaim, HeldClaim, LeaseRecord, Outcome } from '../../../../tenure/src/engine/lease-store.ts'
import { nothingObserved, type ObservedVersions } from '../../../../tenure/src/engine/observed-expiry.ts'
import type {
  MultiClusterLease,
  MultiClusterLeaseStatus,
} from '../../../../tenure/src/multicluster/protocol/resource-types.ts'
import type { Serving, ServingStep } from '../../../src/relay/spec-only-candidate.ts'
import type { Heartbeats } from '../../../src/relay/spec-only-heartbeats.ts'
import { knownAttempt, renewTimeOf } from './attempts.ts'

/** The faults that may occur. */
export const specOnlyFaults = [
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
 * - `lost`: a call to the global store never arrives.
 * - `unheard`: a call is carried out, but its relay gets no answer.
 * - `late`: a call and its answer may take any time. The relay may abandon the call.
 * - `late-write`: a relay abandons a write of the status, which is carried out later if nothing else was written.
 * - `replaced`: a candidate is cut off while its resource is deleted, and another process of the same name starts.
 * - `taken-over`: another candidate writes one heartbeat into the resource.
 */
export type SpecOnlyFault = (typeof specOnlyFaults)[number]

/** The constant parameters. Times are in ticks. */
export interface Setup {
  readonly expiry: 'observed' | 'own-clock'
  readonly leaseTicks: number
  /** How long a candidate tries to renew its lease. */
  readonly deadlineTicks: number
  readonly retryTicks: number
  /** How long a candidate waits for a confirmation. */
  readonly waitTicks: number
  /** Whether a candidate keeps waiting for that long after a refusal, as the documentation describes. */
  readonly waitsOn: boolean
  /** The cluster of each candidate. */
  readonly candidates: readonly number[]
  /** The cluster of each relay, and whether it answers first. */
  readonly relays: readonly { readonly cluster: number; readonly isFirst: boolean }[]
  /** Whether the clusters are symmetric. */
  readonly isSymmetric: boolean
  /** Whether relays poll the global store from time to time. */
  readonly looks: boolean
  readonly faults: ReadonlySet<SpecOnlyFault>
  readonly budget: number
}

export const tickMs = 1_000
export const election = 'e'
/**
 * Returns the identity of a candidate that is not waiting for a confirmation. In this model each identity belongs to
 * one cluster, so that it shows where an attempt comes from.
 */
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

/** A claim that is in flight to the global store. */
export type Claimed =
  | { readonly verb: 'acquire'; readonly claim: AcquireClaim }
  | { readonly verb: 'renew' | 'release'; readonly claim: HeldClaim }

/** The state of the global store. */
export interface Server {
  readonly record: LeaseRecord | undefined
  readonly highestTerm: number
  readonly lastDurationMs: number | undefined
  /**
   * When the newest lease ends. No relay can have observed it for longer. A store that does not decide expiry does not
   * use this value.
   */
  readonly endsAtMs: number
}

/** The result of a call. */
export interface Answer {
  readonly outcome?: Outcome | undefined
  readonly found?: LeaseRecord | undefined
}

/** A delayed call. */
export interface Flight {
  readonly step: ServingStep
  /** The answer, if it is in flight. */
  readonly answer?: Answer | undefined
}

type Life = 'running' | 'stalled' | 'asleep' | 'down'

/** The state of a relay. */
export interface RelaySlot {
  readonly life: Life
  /** The resource as this relay last saw it. */
  readonly resource?: MultiClusterLease | undefined
  readonly seen: ObservedVersions
  /** The version that expired by this relay's observation and that a later read still found. */
  readonly goneVersion?: string | undefined
  /** The state of the heartbeats. Never modified in place. */
  readonly beats: Pick<Heartbeats, 'current' | 'confirmation'>
  readonly serving?: Serving | undefined
  readonly flight?: Flight | undefined
  /** Until this time, a delayed write of the status is in flight. */
  readonly busyUntilMs: number
}

/** The state of a candidate. */
export interface Candidate {
  readonly life: Life
  /** When the candidate reads the resource again. */
  readonly nextAtMs: number
  /** The write whose confirmation the candidate is waiting for. */
  readonly waits?: { readonly uid: string; readonly generation: number; readonly endsAtMs: number } | undefined
  /** The term that the candidate believes in, or 0 if it does not lead. */
  readonly term: number
  readonly confirmedAtMs: number
  /** The leader that the candidate observes, the version of its record, and the time since which both are unchanged. */
  readonly observed: string
  readonly observedVersion: string
  readonly observedAtMs: number
}

/** The whole model state. */
export interface Scene {
  readonly server: Server
  /** The resource of each cluster. Undefined if it has none. */
  readonly resources: readonly (MultiClusterLease | undefined)[]
  readonly relays: readonly RelaySlot[]
  readonly candidates: readonly Candidate[]
  /** Processes that are cut off, and the end of each one's belief. */
  readonly ghosts: readonly { readonly term: number; readonly endsAtMs: number }[]
  /** Calls whose relay no longer waits. */
  readonly orphans: readonly Claimed[]
  /** Writes whose relay no longer waits. */
  readonly lateWrites: readonly LateWrite[]
  readonly budget: number
  /**
   * Whether nothing has happened in this tick so far. A process that is down or stalled continues only at this point.
   * Its next moves may happen at any point of the tick, so no order is missed.
   */
  readonly dawn: boolean
  /** The highest term that any candidate believed in, and that candidate. -1 means a process that was replaced. */
  readonly believed: { readonly term: number; readonly who: number }
  /** The number of the last name that was used. */
  readonly names: number
}

export interface LateWrite {
  readonly cluster: number
  readonly over: string
  /** The status to be written. */
  readonly status: MultiClusterLeaseStatus
}

export const blankRelay: RelaySlot = {
  life: 'running',
  seen: nothingObserved,
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

/**
 * Returns when the candidate's belief ends. Like client-go, it waits for a retry, and then tries to renew until its
 * deadline.
 */
export function beliefEndsAtMs({ confirmedAtMs }: Candidate, { retryTicks, deadlineTicks }: Setup): number {
  return confirmedAtMs + (retryTicks + deadlineTicks) * tickMs
}

export function believes(candidate: Candidate, setup: Setup): boolean {
  return candidate.term > 0 && beliefEndsAtMs(candidate, setup) > 0
}

/** Returns the same list with one element replaced. */
export function withAt<T>(list: readonly T[], index: number, element: T): readonly T[] {
  return list.map((one, at) => (at === index ? element : one))
}

/** A candidate writes a heartbeat. It creates the resource if there is none. */
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
