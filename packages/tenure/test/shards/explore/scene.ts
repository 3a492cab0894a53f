/** The state of the model: one store, a few processes, and one shard. One tick is one millisecond, and now is always 0. */
import type { Assignment, OwnershipReport, ShardSettings } from '../../../src/shards/assignment.ts'
import type { CoordinatorState } from '../../../src/shards/coordinator.ts'
import { newMember, ownedToken, type MemberState } from '../../../src/shards/shard-member.ts'
import type { SeatRecord } from '../../../src/shards/seats.ts'

export const shardFaults = [
  'stall',
  'crash',
  'lost-answer',
  'late-request',
  'leave',
  'move',
  'delete-group',
  'delete-seat',
  'release-by-hand',
] as const

export type ShardFault = (typeof shardFaults)[number]

/** What stays constant during an exploration. */
export interface ShardSetup {
  readonly processes: number
  readonly seats: number
  readonly keepsTerms: boolean
  readonly leaseTicks: number
  /** Whether a process has observed the seats before it is elected, each version from the moment it was written. */
  readonly observesEarly: boolean
  readonly budget: number
  readonly faults: ReadonlySet<ShardFault>
}

/** A record without the fields that no rule reads. */
export interface ModelRecord {
  readonly attempt: string
  readonly term: number
  readonly released: boolean
  readonly isCleaning: boolean
  readonly checkpoint: Assignment | OwnershipReport | 0
  readonly version: string
}

export interface ModelElection {
  readonly record: ModelRecord | undefined
  readonly highestTerm: number
  /** The time since the newest renewal or deletion: how long the best observer has seen this version. */
  readonly ageTicks: number
  /** An administrator has released the lease, and the store grants nothing until it would have expired. */
  readonly isByHand: boolean
}

/** A call of a process, and what the process does with the answer. */
export type ModelCall =
  | {
      readonly verb: 'take-seat'
      readonly seat: number
      readonly attempt: string
      readonly afterTerm: number
      readonly expired: string | 0
    }
  | { readonly verb: 'read'; readonly attempt: string }
  | {
      readonly verb: 'renew'
      readonly report: OwnershipReport | 0
      readonly attempt: string
      readonly seat: number
      readonly term: number
      readonly version: string
    }
  | {
      readonly verb: 'release' | 'free-seat'
      readonly attempt: string
      readonly seat: number
      readonly term: number
      readonly version: string
    }
  | { readonly verb: 'take-group'; readonly attempt: string; readonly afterTerm: number; readonly expired: string | 0 }
  | {
      readonly verb: 'write'
      readonly assignment: Assignment | 0
      readonly attempt: string
      readonly term: number
      readonly version: string
    }
  | { readonly verb: 'read-seat'; readonly seat: number }
  | {
      readonly verb: 'clean-seat'
      readonly seat: number
      readonly attempt: string
      readonly afterTerm: number
      readonly expired: string | 0
    }

/** `ok` of a read is true. */
export interface ModelAnswer {
  readonly ok: boolean
  readonly record: ModelRecord | 0
}

export interface ModelCoordinator {
  readonly state: CoordinatorState
  readonly version: string
  /** The seats that were read in the current round, each a record or 0. */
  readonly round: readonly (SeatRecord | 0)[]
  readonly roundSentMs: number
  /** What its effects ask for. */
  readonly calls: readonly ModelCall[]
}

export interface ModelProcess {
  readonly life: 'down' | 'up' | 'stalled'
  readonly member: MemberState
  readonly seatTerm: number
  readonly seatVersion: string
  /** The time since the newest granted call for the seat was sent. */
  readonly sentTicks: number
  readonly mustRelease: boolean
  readonly coordinator: ModelCoordinator | 0
  /** What the next acquire of the group's lease must be above. */
  readonly afterTerm: number
  /** The calls that were made in this tick. */
  readonly done: readonly string[]
  /** An answer that arrived while the process is stalled. */
  readonly inbox: { readonly call: ModelCall; readonly answer: ModelAnswer; readonly ticks: number } | 0
}

export interface ShardScene {
  readonly group: ModelElection
  readonly seats: readonly ModelElection[]
  readonly processes: readonly ModelProcess[]
  /** Requests without a waiting caller, which may arrive at any time. */
  readonly late: readonly ModelCall[]
  readonly budget: number
  /** The seat that balancing prefers. */
  readonly preferred: number
  /** The highest token with which a shard was owned, and its owner. */
  readonly token: number
  readonly owner: string
  readonly names: number
}

export const settingsOf = ({ leaseTicks }: ShardSetup): ShardSettings => ({
  shards: 1,
  hash: '',
  leaseDurationMs: leaseTicks,
})

const neverWritten: ModelElection = { record: undefined, highestTerm: 0, ageTicks: 0, isByHand: false }

export const downProcess = (keepsTerms: boolean): ModelProcess => ({
  life: 'down',
  member: newMember(keepsTerms),
  seatTerm: 0,
  seatVersion: '',
  sentTicks: 0,
  mustRelease: false,
  coordinator: 0,
  afterTerm: 0,
  done: [],
  inbox: 0,
})

export function firstScene({ processes, seats, keepsTerms, budget }: ShardSetup): ShardScene {
  return {
    group: neverWritten,
    seats: Array.from({ length: seats }, () => neverWritten),
    processes: Array.from({ length: processes }, () => downProcess(keepsTerms)),
    late: [],
    budget,
    preferred: 0,
    token: 0,
    owner: '',
    names: 0,
  }
}

/** Whether the member's leadership says `isLeader()` by the clock. */
export function believes({ life, member, sentTicks }: ModelProcess, { leaseTicks }: ShardSetup): boolean {
  return life !== 'down' && member.member !== undefined && sentTicks < leaseTicks
}

/** Returns the violated invariant, if any. */
export function violationOf(scene: ShardScene, setup: ShardSetup): string | undefined {
  let owner: number | undefined
  for (const [who, one] of scene.processes.entries()) {
    if (one.member.work.length > 1) return `rule 3: ${nameOf(who)} has two works on one shard`
    const isBelieved = believes(one, setup)
    const token = one.life === 'down' ? undefined : ownedToken(one.member, 0, isBelieved)
    const runs = isBelieved && one.member.work.some(({ isAborted }) => !isAborted)
    if (token === undefined && !runs) continue
    if (owner !== undefined) return `S1: ${nameOf(owner)} and ${nameOf(who)} own the shard at the same time`
    owner = who
    if (token === undefined) continue
    if (token < scene.token) return `S2: token ${token} follows token ${scene.token}`
    if (token === scene.token && scene.owner !== one.member.member?.attempt) return `S2: token ${token} has two owners`
  }
  if (owner === undefined) return undefined
  const isBusy = (one: ModelProcess, who: number) => who !== owner && believes(one, setup) && one.member.work.length > 0
  const busy = scene.processes.findIndex(isBusy)
  return busy < 0 ? undefined : `S1: ${nameOf(owner)} owns the shard before the work of ${nameOf(busy)} has settled`
}

/** Notes the token with which the shard is owned. */
export function withToken(scene: ShardScene, setup: ShardSetup): ShardScene {
  for (const one of scene.processes) {
    const token = ownedToken(one.member, 0, believes(one, setup))
    if (token !== undefined && token > scene.token) return { ...scene, token, owner: one.member.member?.attempt ?? '' }
  }
  return scene
}

export const nameOf = (who: number) => 'abcd'[who] ?? '?'

export function withAt<T>(list: readonly T[], index: number, element: T): readonly T[] {
  return list.map((one, at) => (at === index ? element : one))
}
