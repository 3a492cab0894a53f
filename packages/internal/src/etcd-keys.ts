/** Keys of etcd as texts. */

/** The revision of a key that does not exist. */
export const absentRevision = '0'

/** The end of the range of all keys that begin with this text, which must not end in the highest character. */
export function prefixEnd(prefix: string): string {
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)
}

/**
 * Where a listing of keys goes on behind one of them. Our own have ASCII only. Other keys need not be text, so that none can be named
 * that is behind them; but all keys that have the same ASCII before their first other byte are of no interest.
 */
export function afterKey(key: string): string {
  const other = key.search(/[^\p{ASCII}]/u)
  return other < 0 ? `${key}\0` : prefixEnd(key.slice(0, other))
}
