/**
 * Whether a reply shows that a store is usable. Until a write has failed, every reply does. After that, only a
 * successful write or a live lease of another process does. A store that refuses every write, such as a database whose
 * role may not create the table, looks healthy to a reader.
 */
export function isAnswer(
  reply: { readonly isWrite: boolean; readonly isOk: boolean },
  known: { readonly hasWriteFailed: boolean; readonly isHeld: boolean },
): boolean {
  return !known.hasWriteFailed || known.isHeld || (reply.isWrite && reply.isOk)
}
