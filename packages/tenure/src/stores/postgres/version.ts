/**
 * Builds a version from the sequence number and a part of the record that differs in every write. A promoted replica or
 * a restored backup can reuse a number. A candidate that remembers the old record must not mistake the new one for it.
 */
export function versionOf(counter: string, record: string): string {
  // The record ends with its write id or nonce. `uniquePart` in the statements does the same.
  return `${counter}-${record.slice(-14, -2)}`
}

/** The sequence number of a version. */
export function counterOf(version: string): string {
  return version.slice(0, version.indexOf('-'))
}

/** The unique part of a version. */
export function uniqueIn(version: string): string {
  return version.slice(version.indexOf('-') + 1)
}
