/** The message of any thrown value. */
export function messageOf(thrown: unknown): string {
  try {
    // If a host name has several addresses and none answers, Node throws an AggregateError with one error per address
    // and no message.
    if (thrown instanceof AggregateError && thrown.message === '') return thrown.errors.map(messageOf).join(', ')
    // User code may throw anything, such as an error whose message is not a string, or an object without a message.
    return String(thrown instanceof Error ? thrown.message : thrown)
  } catch {
    return 'an error that cannot be converted to text'
  }
}
