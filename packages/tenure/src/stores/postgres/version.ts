/**
 * Versions: the number that the sequence gave, and a part of the record that differs in every write. A replica that was
 * promoted, or a backup, can give a number again; what a candidate then remembers of it must not pass for the new record.
 */
export function versionOf(counter: string, record: string): string {
  // The record ends in its mark or nonce. As `uniquePart` in the statements.
  return `${counter}-${record.slice(-14, -2)}`
}

/** The number alone. */
export function counterOf(version: string): string {
  return version.slice(0, version.indexOf('-'))
}

/** The other part. */
export function uniqueIn(version: string): string {
  return version.slice(version.indexOf('-') + 1)
}
