/** What was thrown, in words. */
export function messageOf(thrown: unknown): string {
  try {
    // A name with several addresses, none of which answers, gives an error for each and a message for none.
    if (thrown instanceof AggregateError && thrown.message === '') return thrown.errors.map(messageOf).join(', ')
    // People throw anything: an error with a message that is not text, and objects that have none.
    return String(thrown instanceof Error ? thrown.message : thrown)
  } catch {
    return 'something that cannot be put into words'
  }
}
