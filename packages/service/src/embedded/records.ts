import { crc32 } from 'node:zlib'

/** What is kept of a group. Short names: there may be a million of them. */
export interface Stored {
  /** The highest term that was ever granted. */
  readonly term: number
  /** The term of the lease below, where a higher one was tried since. */
  readonly leaseTerm?: number
  readonly node?: string
  readonly attempt?: string
  /** The longest duration that was promised in this term. */
  readonly ttl?: number
  readonly at?: number
  readonly meta?: Readonly<Record<string, unknown>>
  readonly carry?: string | undefined
  /** Nobody leads in this term any more. */
  readonly ended?: boolean
  /** Although the term was ended by force, nobody may lead for so long. */
  readonly heldMs?: number
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly allowed?: readonly string[] | undefined
  /** How often a backup had been put back when this was written. */
  readonly restores?: number
  /** The group was deleted; only its term lives on. */
  readonly deleted?: boolean | undefined
}

const checksumLength = 8

/** A record as it was found. */
export interface Decoded {
  readonly value: unknown
  /** The number of the commit that wrote it. */
  readonly commit: number
}

/**
 * A record as text: a checksum, the number of its commit, JSON. LMDB has no checksums of its own, and a term that a
 * flipped bit made lower would be granted twice. The key is part of the sum: a record that stands in another's place is
 * as wrong.
 */
export function encodeRecord(key: string, value: object, commit: number): string {
  const text = commit.toString(36) + JSON.stringify(value)
  return checksumOf(key, text) + text
}

/** Undefined if it is not what was written. */
export function decodeRecord(key: string, record: string): Decoded | undefined {
  const start = record.indexOf('{')
  if (start < checksumLength || !record.startsWith(checksumOf(key, record.slice(checksumLength)))) return undefined
  return { value: JSON.parse(record.slice(start)), commit: Number.parseInt(record.slice(checksumLength, start), 36) }
}

function checksumOf(key: string, text: string): string {
  return crc32(key + text)
    .toString(16)
    .padStart(checksumLength, '0')
}
