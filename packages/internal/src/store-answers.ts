/**
 * Whether a reply shows that a store can be used. Until a write has failed, every reply does. After that, only a write
 * that succeeds or a live lease of another process does: a store that refuses every write, such as a database whose
 * role may not create the table, looks healthy to a reader.
 */
export function isAnswer(
  reply: { readonly isWrite: boolean; readonly isOk: boolean },
  known: { readonly hasWriteFailed: boolean; readonly isHeld: boolean },
): boolean {
  return !known.hasWriteFailed || known.isHeld || (reply.isWrite && reply.isOk)
}
