/** The model state: successive replicas, their knowledge, and one storage. Data only. */
import type { Appender } from '../../../src/storage/appender.ts'
import { isSameHead, type StoredGroup, type StorageHead } from '../../../src/storage/storage.ts'

/** The faults that may occur. */
export const appenderFaults = ['lost', 'unheard', 'late', 'doubled', 'crash', 'cancelled'] as const

/**
 * - `lost`: a request never arrives, and its sender gives up.
 * - `unheard`: a request takes effect, and its sender gets no answer.
 * - `late`: the sender gives up, and the request arrives at any later time.
 * - `doubled`: a request arrives once more at any later time.
 * - `crash`: a process ends while an append is in flight.
 * - `cancelled`: a batch takes effect and is visible, but is not confirmed. A failover may lose it.
 */
export type AppenderFault = (typeof appenderFaults)[number]

/** The constant parameters. */
export interface Setup {
  /** The maximum number of active terms at once. All but one of them do not know yet that they have a successor. */
  readonly replicas: number
  readonly groups: number
  readonly faults: ReadonlySet<AppenderFault>
  /** The maximum number of faults. */
  readonly budget: number
}

/** A group in the storage. Each write has a unique value. */
export interface Entry {
  readonly value: number
  readonly seq: number
}

/** The content of the storage. */
export interface Kept {
  readonly head: StorageHead
  readonly groups: readonly Entry[]
}

/** A request to the storage: if the head is `over`, it becomes `head`, and the groups are written. */
export interface Swap {
  readonly over: StorageHead
  readonly head: StorageHead
  readonly groups: readonly StoredGroup[]
}

/** Whether the request writes the found head again, so that no failover loses it. */
export function isConfirmation({ over, head }: Swap): boolean {
  return isSameHead(over, head)
}

/** A request whose sender is waiting for the answer. */
export interface Flight extends Swap {
  /**
   * The answer in flight. `swapped`: the batch was written. `failed`: the outcome is unknown. `own` and `other`: the
   * storage has the head of this batch already, or another head.
   */
  readonly answer?: 'swapped' | 'failed' | 'own' | 'other' | undefined
}

/** One active term of a replica. */
export interface ActiveTerm {
  readonly term: number
  /** `elected`: the replica knows nothing yet. `swapping`: it takes over. `swapped`: it has to load. */
  readonly phase: 'elected' | 'swapping' | 'swapped' | 'serving'
  /** Whether the replica knows that the term has ended. The term remains until none of its appends are in flight. */
  readonly isEnded: boolean
  readonly appender?: Appender | undefined
  readonly flight?: Flight | undefined
  /** The kind of append: a swap of the head, the records of writers, or only a batch that settles an earlier one. */
  readonly task?: { readonly groups: readonly StoredGroup[] | undefined; readonly isAsked: boolean } | undefined
  /** The value of each group in the memory of the replica. */
  readonly memory: readonly number[]
}

/** The whole state at one moment. */
export interface Scene {
  /** The content that every reader sees. */
  readonly shown: Kept
  /** The content that survives a failover. */
  readonly confirmed: Kept
  /** The active terms, ordered by term. */
  readonly activeTerms: readonly ActiveTerm[]
  /** Requests whose sender is no longer waiting. */
  readonly orphans: readonly Swap[]
  /** The number of faults that may still occur. */
  readonly budget: number
  /** The highest term so far. */
  readonly term: number
  /** The highest term in which a replica has loaded. */
  readonly loadedTerm: number
  /** The last name that was used. */
  readonly names: number
}

export function headOf(term: number, seq: number, batch: number): StorageHead {
  return { term, seq, batch: String(batch), clusterId: '', restores: 0, incarnation: '', secret: '' }
}

export function idOf(group: number): string {
  return String(group)
}

export function keptGroup(group: number, value: number): StoredGroup {
  return { id: idOf(group), record: { term: value } }
}

export function firstScene({ groups, budget }: Setup): Scene {
  const empty = { head: headOf(0, 0, 0), groups: Array.from({ length: groups }, () => ({ value: 0, seq: 0 })) }
  return {
    shown: empty,
    confirmed: empty,
    activeTerms: [],
    orphans: [],
    budget,
    term: 0,
    loadedTerm: 0,
    names: 0,
  }
}
