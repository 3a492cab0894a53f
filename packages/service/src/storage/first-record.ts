import { secret } from '@tenure/internal/clock'
import { DamagedDataError } from './data-file.ts'
import { decodeRecord } from './record-text.ts'
import type { StorageHead } from './storage.ts'

/** The first record: the head and other data about the file. It is part of every commit. */
export interface Meta extends Omit<StorageHead, 'incarnation'> {
  readonly format: typeof format
  /** The head's incarnation. It identifies the file in which this record was written, so that a copy is noticed. */
  readonly place: string
  /** Where the data was moved to. */
  readonly movedTo?: string | undefined
  /** The data is being moved here and may be incomplete. */
  readonly isPartial?: boolean | undefined
}

/**
 * The format of the data. Each version refuses unknown formats with a clear message. For that, the first record has
 * this number and the same encoding in all formats.
 */
const format = 1

/** Throws if the record is damaged, or has a format that this version does not know. */
export function decodeMeta(record: string | undefined): Meta {
  const found = record === undefined ? undefined : decodeRecord('meta', record)?.value
  if (!found) throw new DamagedDataError('its first record is damaged')
  const { format: foundFormat } = found as { readonly format: unknown }
  if (foundFormat === format) return found as Meta
  throw new Error(
    `it has format ${String(foundFormat)}; this version reads format ${format}. Use the version that wrote it.`,
  )
}

/** Returns the first record of new data in the file that `place` identifies. */
export function newMeta(clusterId: string, place: string): Meta {
  return { format, clusterId, place, restores: 0, term: 0, seq: 0, batch: '', secret: secret(16).toString('hex') }
}

export function headOf({ term, seq, batch, clusterId, restores, secret, heldMs, place }: Meta): StorageHead {
  return { term, seq, batch, clusterId, restores, secret, incarnation: place, ...(heldMs !== undefined && { heldMs }) }
}
