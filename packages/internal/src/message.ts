/** What was thrown, in words. */
export function messageOf(thrown: unknown): string {
  // A name with several addresses, none of which answers, gives an error for each and a message for none.
  if (thrown instanceof AggregateError && thrown.message === '') return thrown.errors.map(messageOf).join(', ')
  return thrown instanceof Error ? thrown.message : String(thrown)
}
