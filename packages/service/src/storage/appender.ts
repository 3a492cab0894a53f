/**
 * What is sent to a {@link Storage}, and what follows from the answers: decisions alone, data in and data out. `Journal`
 * carries them out, one batch at a time.
 *
 * Where an append rejects, its writers fail at once, and it is unknown what becomes of the batch: it may still be applied,
 * even much later. Nothing else is appended on top of that. First an empty batch is appended to the same head. Where it
 * is `done`, the unknown one can never be. Where it is `fenced`, the same batch is sent again: `done` means that it was
 * applied after all, and that this is durable now. If that is fenced too, another replica has appended, and this one never
 * does again. Reading the head would not settle anything: see {@link Storage.append}.
 *
 * Writers that failed although their batch was applied are no different from those of a process that crashed between
 * the commit and the answer. What that means for each kind of write is said at `LocalGroups`. Such records are *unheard*:
 * they are replaced by what memory says before anything else is written. Otherwise a reader of changes could have
 * seen a later batch when the process crashes: by its cursor it would know of a record that it was never told of.
 */
import { ServiceError } from '../errors.ts'
import type { Appended, Batch, GroupRecord, KeptGroup, StorageHead } from './storage.ts'

/** What a batch may change of the head, beside its place. */
export type HeadChanges = Partial<Pick<StorageHead, 'term' | 'restores' | 'incarnation' | 'heldMs'>>

/** What the one who appends knows. */
export interface Appender {
  /** The newest that is durable for certain: the next batch follows it. */
  readonly head: StorageHead
  /** Every batch from now on has these in its head. */
  readonly changes: HeadChanges
  /** What was sent, until it is certain that it is there, or that it never will be. */
  readonly open?: OpenBatch | undefined
  /** Groups whose record is in the storage although its writer failed. */
  readonly unheard: readonly string[]
  /** Why nothing is sent any more. */
  readonly over?: ServiceError | undefined
}

interface OpenBatch {
  readonly batch: Batch
  /** On the same head, without groups: where it is taken, the batch never will be. */
  readonly instead: Batch
  /**
   * - `sent`: the batch is under way for the first time.
   * - `unknown`: what was under way rejected.
   * - `instead`: that is under way.
   * - `taken`: that was fenced.
   * - `again`: the batch is under way once more.
   */
  readonly stage: 'sent' | 'unknown' | 'instead' | 'taken' | 'again'
}

/** Where new batches come from. */
export interface BatchSource {
  newId(): string
  /** What memory has of a group. */
  recordNow(id: string): GroupRecord
  /** How many of these the storage takes at once: one at least. */
  fitting(kept: readonly KeptGroup[]): number
}

/** An append over `state.head`. */
export interface Sending {
  readonly state: Appender
  readonly batch: Batch
  /** Whether it has what was asked for, and not what comes before that. */
  readonly isAsked: boolean
}

/** `head` is that of the storage. */
export function newAppender(head: StorageHead): Appender {
  return { head, changes: {}, unheard: [] }
}

/** Every batch from now on has these in its head. */
export function changed(state: Appender, changes: HeadChanges): Appender {
  return { ...state, changes: { ...state.changes, ...changes } }
}

/** Nothing more is sent. */
export function ended(state: Appender, reason: ServiceError): Appender {
  return { ...state, over: state.over ?? reason }
}

/**
 * What is sent next, where nothing is under way: what settles the batch before, then what memory has of unheard groups,
 * then what is asked for. Undefined: there is nothing to do. Throws where it is over, which may have come in between.
 */
export function next(
  state: Appender,
  asked: readonly KeptGroup[] | undefined,
  source: BatchSource,
): Sending | undefined {
  const { over, open, unheard } = state
  if (over) throw over
  if (open) {
    const isTaken = open.stage === 'taken'
    const settling: Appender = { ...state, open: { ...open, stage: isTaken ? 'again' : 'instead' } }
    return { state: settling, batch: isTaken ? open.batch : open.instead, isAsked: false }
  }
  const isAsked = unheard.length === 0
  const groups = isAsked ? asked : recordsNow(unheard, source)
  if (!groups) return undefined
  const batch = batchAfter(state, groups, source)
  const instead = batchAfter(state, [], source)
  return { state: { ...state, open: { batch, instead, stage: 'sent' } }, batch, isAsked }
}

/** What became of it. `unknown`: it rejected. */
export function answered(state: Appender, answer: Appended | 'unknown'): Appender {
  const { open, unheard } = state
  if (!open) return state
  const { batch, instead, stage } = open
  if (answer === 'unknown') return { ...state, open: { ...open, stage: 'unknown' } }
  if (stage === 'instead') {
    if (answer === 'fenced') return { ...state, open: { ...open, stage: 'taken' } }
    return { ...state, open: undefined, head: instead.head }
  }
  if (answer === 'fenced') return { ...state, over: fenced() }
  // While any are unheard, nothing else is in a batch.
  const left = stage === 'again' ? withGroups(unheard, batch) : unheard.slice(batch.groups.length)
  return { ...state, open: undefined, head: batch.head, unheard: left }
}

function withGroups(ids: readonly string[], { groups }: Batch): readonly string[] {
  return [...new Set([...ids, ...groups.map(({ id }) => id)])]
}

function recordsNow(ids: readonly string[], { recordNow, fitting }: BatchSource): readonly KeptGroup[] {
  const kept = ids.map((id) => ({ id, record: recordNow(id) }))
  return kept.slice(0, fitting(kept))
}

function batchAfter({ head, changes }: Appender, groups: readonly KeptGroup[], { newId }: BatchSource): Batch {
  return { head: { ...head, ...changes, seq: head.seq + 1, batch: newId() }, groups }
}

function fenced(): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', 'Another replica writes to the storage of this service.')
}
