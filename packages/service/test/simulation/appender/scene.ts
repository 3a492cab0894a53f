/** What is explored: replicas that follow one another, what they know, and one storage. Data only. */
import type { Appender } from '../../../src/storage/appender.ts'
import { isSameHead, type KeptGroup, type StorageHead } from '../../../src/storage/storage.ts'

/** What may go wrong. */
export const appenderFaults = ['lost', 'unheard', 'late', 'doubled', 'crash', 'cancelled'] as const

/**
 * - `lost`: a request never arrives, and its sender gives it up.
 * - `unheard`: it was carried out, and its sender hears nothing.
 * - `late`: its sender gives it up, and it arrives at any later time.
 * - `doubled`: it arrives once more, at any later time.
 * - `crash`: a process ends while something is under way.
 * - `cancelled`: it is carried out and shown, but not confirmed. A failover may lose it.
 */
export type AppenderFault = (typeof appenderFaults)[number]

/** What does not change. */
export interface Setup {
  /** How many reigns there may be at once: all but one do not know that they have a successor. */
  readonly replicas: number
  readonly groups: number
  readonly faults: ReadonlySet<AppenderFault>
  /** How many faults there may be. */
  readonly budget: number
}

/** A group of the storage. Each write has a value of its own. */
export interface Entry {
  readonly value: number
  readonly seq: number
}

/** What the storage has. */
export interface Kept {
  readonly head: StorageHead
  readonly groups: readonly Entry[]
}

/** A request to the storage: if the head is `over`, it becomes `head`, and the groups are written. */
export interface Swap {
  readonly over: StorageHead
  readonly head: StorageHead
  readonly groups: readonly KeptGroup[]
}

/** It writes the head again that was found, so that no failover loses it. */
export function isConfirmation({ over, head }: Swap): boolean {
  return isSameHead(over, head)
}

/** A request whose sender waits. */
export interface Flight extends Swap {
  /** On the way back: it was done, nobody knows, or its own head was found, or another. */
  readonly answer?: 'swapped' | 'failed' | 'own' | 'other' | undefined
}

/** One replica as the active one. */
export interface Reign {
  readonly term: number
  /** `elected`: it knows nothing. `swapping`: it takes over. `swapped`: it has to load. */
  readonly phase: 'elected' | 'swapping' | 'swapped' | 'serving'
  /** It has heard of its end. It is there until nothing of it is under way. */
  readonly isEnded: boolean
  readonly appender?: Appender | undefined
  readonly flight?: Flight | undefined
  /** What is appended: a swap of the head, what writers wait for, or nothing but what settles. */
  readonly task?: { readonly groups: readonly KeptGroup[] | undefined; readonly isAsked: boolean } | undefined
  /** The value of each group. */
  readonly memory: readonly number[]
}

/** Everything, at one moment. */
export interface Scene {
  /** What everybody sees. */
  readonly shown: Kept
  /** What outlives a failover. */
  readonly confirmed: Kept
  /** By term. */
  readonly reigns: readonly Reign[]
  /** Requests for which nobody waits. */
  readonly orphans: readonly Swap[]
  /** How many more faults there may be. */
  readonly budget: number
  /** No lower than any. */
  readonly term: number
  /** The highest in which somebody has loaded. */
  readonly loadedTerm: number
  /** The last name. */
  readonly names: number
}

export function headOf(term: number, seq: number, batch: number): StorageHead {
  return { term, seq, batch: String(batch), clusterId: '', restores: 0, incarnation: '', secret: '' }
}

export function idOf(group: number): string {
  return String(group)
}

export function keptGroup(group: number, value: number): KeptGroup {
  return { id: idOf(group), record: { term: value } }
}

export function firstScene({ groups, budget }: Setup): Scene {
  const empty = { head: headOf(0, 0, 0), groups: Array.from({ length: groups }, () => ({ value: 0, seq: 0 })) }
  return {
    shown: empty,
    confirmed: empty,
    reigns: [],
    orphans: [],
    budget,
    term: 0,
    loadedTerm: 0,
    names: 0,
  }
}
