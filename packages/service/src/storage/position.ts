/**
 * Where a change is in the order of all changes: in which batch it became durable, and where in that. It is the same on
 * every replica, and after a restart. Two terms or batches never share one, and each is after all that were durable
 * before it, as long as the storage loses nothing.
 */
export interface Position {
  /** The head's. After a loss the storage counts on from an earlier batch, so positions with another number tell nothing. */
  readonly restores: number
  readonly term: number
  readonly seq: number
  /** Within the batch. {@link batchEnd}: the whole of it. */
  readonly index: number
}

/** Above every index. The last change of a batch has it, and so has the end of a batch without one. */
export const batchEnd = 2 ** 31 - 1

/** What was durable when the storage had this head. */
export function positionOf({ restores, term, seq }: Omit<Position, 'index'>): Position {
  return { restores, term, seq, index: batchEnd }
}

export function isAfter(one: Position, other: Position): boolean {
  if (one.restores !== other.restores) return one.restores > other.restores
  if (one.term !== other.term) return one.term > other.term
  return one.seq === other.seq ? one.index > other.index : one.seq > other.seq
}

/** Whether a record may have been written after a position: one of the batch that it is in the middle of may have been. */
export function isWrittenAfter(seq: number, { seq: knownSeq, index }: Position): boolean {
  return index === batchEnd ? seq > knownSeq : seq >= knownSeq
}

/** The longest text of a position. */
export const positionLength = 42

export function textOf({ restores, term, seq, index }: Position): string {
  return [restores, term, seq, index].map((part) => part.toString(36)).join('.')
}

export function positionFrom(text: string): Position | undefined {
  const parts = text.split('.').map((part) => Number.parseInt(part, 36))
  const [restores, term, seq, index] = parts
  if (restores === undefined || term === undefined || seq === undefined || index === undefined) return undefined
  return parts.length === 4 && parts.every(Number.isSafeInteger) ? { restores, term, seq, index } : undefined
}
