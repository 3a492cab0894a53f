/**
 * Decides which batches to send to a {@link Storage}, and how to interpret its answers. This file contains only the
 * decisions, as functions on plain data. `Journal` carries them out, one batch at a time.
 *
 * When an append rejects, its writers fail at once, and the outcome of the batch is unknown: it may still be applied,
 * even much later. Nothing else is appended on top of it. Instead an empty batch is appended to the same head. If that
 * is `done`, the unknown batch can never be applied. If it is `fenced`, the unknown batch is sent again. `done` then
 * means that the batch was applied after all, and that it is durable now. If the batch is fenced too, another replica
 * has appended, and this one never appends again. Reading the head would not settle anything: see {@link
 * Storage.append}.
 *
 * If a batch was applied although its writers failed, the effect is the same as if the process had crashed between the
 * commit and the answer. `LocalGroups` explains what that means for each kind of write. Such records are *unconfirmed*:
 * they are replaced by the records in memory before anything else is written. Otherwise a watcher could see a later
 * batch before the process crashes, and its cursor would cover a record that was never reported to it.
 */
import { ServiceError } from '../common/errors.ts'
import type { Appended, Batch, GroupRecord, StoredGroup, StorageHead } from './storage.ts'

/** The changes that a batch may make to the head, apart from its position. */
export type HeadChanges = Partial<Pick<StorageHead, 'term' | 'restores' | 'incarnation' | 'heldMs'>>

/** The state of the process that appends. */
export interface Appender {
  /** The newest head that is certainly durable. The next batch follows it. */
  readonly head: StorageHead
  /** Applied to the head of every batch from now on. */
  readonly changes: HeadChanges
  /** The batch that was sent, until its outcome is certain. */
  readonly open?: OpenBatch | undefined
  /** Groups whose record is in the storage although its writer failed. */
  readonly unconfirmed: readonly string[]
  /** Why nothing more may be sent. Undefined while batches may be sent. */
  readonly endReason?: ServiceError | undefined
}

interface OpenBatch {
  readonly batch: Batch
  /** An empty batch on the same head. Once it is applied, `batch` never can be. */
  readonly instead: Batch
  /**
   * - `sent`: the batch is in flight for the first time.
   * - `unknown`: the call in flight rejected.
   * - `instead`: the empty batch is in flight.
   * - `taken`: the empty batch was fenced.
   * - `again`: the batch is in flight once more.
   */
  readonly stage: 'sent' | 'unknown' | 'instead' | 'taken' | 'again'
}

/** The inputs for new batches. */
export interface BatchSource {
  newId(): string
  /** Returns a group's record from memory. */
  recordNow(id: string): GroupRecord
  /** Returns how many of these fit into one batch of the storage, at least one. */
  fitting(kept: readonly StoredGroup[]): number
}

/** An append that follows `state.head`. */
export interface PendingAppend {
  readonly state: Appender
  readonly batch: Batch
  /** Whether the batch contains the requested groups. False if it first settles an earlier batch. */
  readonly isAsked: boolean
}

/** Returns an appender with no batch in progress. `head` is the current head of the storage. */
export function newAppender(head: StorageHead): Appender {
  return { head, changes: {}, unconfirmed: [] }
}

/** Applies these changes to the head of every batch from now on. */
export function changed(state: Appender, changes: HeadChanges): Appender {
  return { ...state, changes: { ...state.changes, ...changes } }
}

/** Ends appending: nothing more is sent. */
export function ended(state: Appender, reason: ServiceError): Appender {
  return { ...state, endReason: state.endReason ?? reason }
}

/**
 * Returns what to send next when nothing is in flight: first the batch that settles the previous one, then the
 * in-memory records of unconfirmed groups, then the requested groups. Returns undefined if there is nothing to do.
 * Throws if appending has ended, which may have happened since the last call.
 */
export function next(
  state: Appender,
  asked: readonly StoredGroup[] | undefined,
  source: BatchSource,
): PendingAppend | undefined {
  const { endReason, open, unconfirmed } = state
  if (endReason) throw endReason
  if (open) {
    const isTaken = open.stage === 'taken'
    const settling: Appender = { ...state, open: { ...open, stage: isTaken ? 'again' : 'instead' } }
    return { state: settling, batch: isTaken ? open.batch : open.instead, isAsked: false }
  }
  const isAsked = unconfirmed.length === 0
  const groups = isAsked ? asked : recordsNow(unconfirmed, source)
  if (!groups) return undefined
  const batch = batchAfter(state, groups, source)
  const instead = batchAfter(state, [], source)
  return { state: { ...state, open: { batch, instead, stage: 'sent' } }, batch, isAsked }
}

/** Applies the answer from the storage. `unknown` means that the call rejected. */
export function answered(state: Appender, answer: Appended | 'unknown'): Appender {
  const { open, unconfirmed } = state
  if (!open) return state
  const { batch, instead, stage } = open
  if (answer === 'unknown') return { ...state, open: { ...open, stage: 'unknown' } }
  if (stage === 'instead') {
    if (answer === 'fenced') return { ...state, open: { ...open, stage: 'taken' } }
    return { ...state, open: undefined, head: instead.head }
  }
  if (answer === 'fenced') return { ...state, endReason: fenced() }
  // While there are unconfirmed groups, a batch contains only those.
  const left = stage === 'again' ? withGroups(unconfirmed, batch) : unconfirmed.slice(batch.groups.length)
  return { ...state, open: undefined, head: batch.head, unconfirmed: left }
}

function withGroups(ids: readonly string[], { groups }: Batch): readonly string[] {
  return [...new Set([...ids, ...groups.map(({ id }) => id)])]
}

function recordsNow(ids: readonly string[], { recordNow, fitting }: BatchSource): readonly StoredGroup[] {
  const kept = ids.map((id) => ({ id, record: recordNow(id) }))
  return kept.slice(0, fitting(kept))
}

function batchAfter({ head, changes }: Appender, groups: readonly StoredGroup[], { newId }: BatchSource): Batch {
  return { head: { ...head, ...changes, seq: head.seq + 1, batch: newId() }, groups }
}

function fenced(): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', "Another replica has written to this service's storage.")
}
