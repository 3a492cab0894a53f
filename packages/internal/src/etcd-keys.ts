/** etcd keys as text. */

/** The revision of a key that does not exist. */
export const absentRevision = '0'

/** The end of the range of all keys with this prefix, which must not end in the highest character. */
export function prefixEnd(prefix: string): string {
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)
}

/**
 * The key at which a listing continues after `key`. Tenure's own keys are ASCII. Other keys need not be text, so their
 * direct successor cannot be expressed. Instead, all keys with the same ASCII prefix before the first non-ASCII byte
 * are skipped, because none of them belongs to Tenure.
 */
export function afterKey(key: string): string {
  const other = key.search(/[^\p{ASCII}]/u)
  return other < 0 ? `${key}\0` : prefixEnd(key.slice(0, other))
}
