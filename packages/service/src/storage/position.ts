/**
 * The position of a change in the order of all changes: the batch in which it became durable, and its index in that
 * batch. It is the same on every replica, and after a restart. Two terms or batches never share a position, and each
 * position is after everything that was durable before it, as long as the storage loses nothing.
 */
export interface Position {
  /**
   * The head's `restores`. After a loss the storage continues from an earlier batch, so positions with different values
   * cannot be compared in detail.
   */
  readonly restores: number
  readonly term: number
  readonly seq: number
  /** The index within the batch. {@link batchEnd} means the whole batch. */
  readonly index: number
}

/** An index above every other. The last change of a batch has this index, and so does the end of an empty batch. */
export const batchEnd = 2 ** 31 - 1

/** Returns the position of everything that was durable when the storage had this head. */
export function positionOf({ restores, term, seq }: Omit<Position, 'index'>): Position {
  return { restores, term, seq, index: batchEnd }
}

export function isAfter(one: Position, other: Position): boolean {
  if (one.restores !== other.restores) return one.restores > other.restores
  if (one.term !== other.term) return one.term > other.term
  return one.seq === other.seq ? one.index > other.index : one.seq > other.seq
}

/**
 * Returns whether a record may have been written after a position. If the position is in the middle of a batch, this is
 * true for every record of that batch.
 */
export function isWrittenAfter(seq: number, { seq: knownSeq, index }: Position): boolean {
  return index === batchEnd ? seq > knownSeq : seq >= knownSeq
}

/** The maximum length of a position's text. */
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
