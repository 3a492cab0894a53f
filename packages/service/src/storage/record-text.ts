import { crc32 } from 'node:zlib'

const checksumLength = 8

/** A decoded record. */
export interface Decoded {
  readonly value: unknown
  /** The number of the commit that wrote the record. */
  readonly commit: number
  /** The `seq` of the head that the record was written with, or 0. */
  readonly seq: number
}

/**
 * Encodes a record as text: a checksum, the numbers of its commit and batch, and JSON. LMDB has no checksums, and a
 * term lowered by a flipped bit would be granted twice. The checksum covers the key, because a record under another key
 * is just as wrong.
 */
export function encodeRecord(
  key: string,
  value: { readonly meta?: string },
  { commit, seq }: { readonly commit: number; readonly seq: number },
): string {
  const { meta, ...rest } = value
  const json = JSON.stringify(rest)
  const numbers = `${commit.toString(36)}.${seq.toString(36)}`
  const text = numbers + (meta === undefined ? json : `${json.slice(0, -1)},"meta":${meta}}`)
  return checksumOf(key, text) + text
}

/** Returns undefined if the record is damaged. */
export function decodeRecord(key: string, record: string): Decoded | undefined {
  const start = record.indexOf('{')
  if (start < checksumLength || !record.startsWith(checksumOf(key, record.slice(checksumLength)))) return undefined
  const parsed = JSON.parse(record.slice(start)) as { readonly meta?: unknown }
  // Most records have no metadata, and up to a million of them are read at a start.
  const value = parsed.meta === undefined ? parsed : { ...parsed, meta: JSON.stringify(parsed.meta) }
  const [commit = '', seq = ''] = record.slice(checksumLength, start).split('.')
  return { value, commit: Number.parseInt(commit, 36), seq: Number.parseInt(seq, 36) }
}

function checksumOf(key: string, text: string): string {
  return crc32(key + text)
    .toString(16)
    .padStart(checksumLength, '0')
}
