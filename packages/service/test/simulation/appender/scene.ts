/** The model state: successive replicas, what they know, and one storage. Data only. */
import type { Appender } from '../../../src/storage/appender.ts'
import { isSameHead, type KeptGroup, type StorageHead } from '../../../src/storage/storage.ts'

/** The faults that may occur. */
export const appenderFaults = ['lost', 'unheard', 'late', 'doubled', 'crash', 'cancelled'] as const

/**
 * - `lost`: a request never arrives, and its sender gives it up.
 * - `unheard`: a request takes effect, and its sender gets no answer.
 * - `late`: the sender gives a request up, and it arrives at any later time.
 * - `doubled`: a request arrives once more at any later time.
 * - `crash`: a process ends while an append is in flight.
 * - `cancelled`: a batch takes effect and is visible, but is not confirmed. A failover may lose it.
 */
export type AppenderFault = (typeof appenderFaults)[number]

/** The parameters that do not change. */
export interface Setup {
  /** The maximum number of active terms at once. All but one of them do not know that they have a successor. */
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
  readonly groups: readonly KeptGroup[]
}

/** Whether the request writes the found head again, so that no failover loses it. */
export function isConfirmation({ over, head }: Swap): boolean {
  return isSameHead(over, head)
}

/** A request whose sender waits. */
export interface Flight extends Swap {
  /**
   * The answer on its way back: the batch was done, the outcome is unknown, or the storage has the batch's own head or
   * another one.
   */
  readonly answer?: 'swapped' | 'failed' | 'own' | 'other' | undefined
}

/** One active term of a replica. */
export interface Reign {
  readonly term: number
  /** `elected`: the replica knows nothing yet. `swapping`: it takes over. `swapped`: it has to load. */
  readonly phase: 'elected' | 'swapping' | 'swapped' | 'serving'
  /** The replica has learned of its end. The term remains until none of its appends are in flight. */
  readonly isEnded: boolean
  readonly appender?: Appender | undefined
  readonly flight?: Flight | undefined
  /** What is being appended: a swap of the head, the records of writers, or only what settles an earlier batch. */
  readonly task?: { readonly groups: readonly KeptGroup[] | undefined; readonly isAsked: boolean } | undefined
  /** The value of each group. */
  readonly memory: readonly number[]
}

/** The whole state at one moment. */
export interface Scene {
  /** The content that every reader sees. */
  readonly shown: Kept
  /** The content that survives a failover. */
  readonly confirmed: Kept
  /** The active terms, ordered by term. */
  readonly reigns: readonly Reign[]
  /** Requests for which nobody waits. */
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
