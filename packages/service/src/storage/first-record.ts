import { secret } from '@tenure/internal/clock'
import { Damage } from './data-file.ts'
import { decodeRecord } from './record-text.ts'
import type { StorageHead } from './storage.ts'

/** The first record: the head, and what else is known of the file. */
export interface Meta extends Omit<StorageHead, 'incarnation'> {
  readonly format: typeof format | typeof unservedFormat
  /** The head's incarnation: the file in which this was written, to notice a copy. Early data have none. */
  readonly place?: string | undefined
  /** Where terms were skipped last: there, it is not done again by an option that somebody forgot to remove. */
  readonly restoredAt?: string | undefined
  /** Where the data were moved to. */
  readonly movedTo?: string | undefined
  /** The data are being moved here. Those that are there may not be all. */
  readonly isPartial?: boolean | undefined
}

/**
 * What of the data has which shape. A version refuses every format but those that it knows, in words, so the first record
 * of all formats has this number and is encoded alike.
 *
 * 1. The first record is written when it changes. It has neither term, seq, batch nor secret.
 * 2. The first record is the head, part of every commit. Records of groups have a seq, and say why a term ended. Those of
 *    format 1 stay as they are until they are written again.
 * 3. As 2, of data that nobody serves because they are moved: another number, so that no earlier version serves them.
 */
const format = 2
export const unservedFormat = 3

/** As it was found: of any format that this version reads. */
export type FoundMeta = Partial<Omit<Meta, 'format'>> & { readonly format: 1 | Meta['format'] }

/** Throws for what is damaged, and for formats that this version does not know. */
export function decodeMeta(record: string | undefined): FoundMeta {
  const found = record === undefined ? undefined : decodeRecord('meta', record)?.value
  if (!found) throw new Damage('its first record is damaged')
  const { format: foundFormat } = found as { readonly format: unknown }
  if (foundFormat === format || foundFormat === 1 || foundFormat === unservedFormat) return found as FoundMeta
  throw new Error(
    `it has format ${String(foundFormat)}; this version reads formats 1 to ${unservedFormat}. Use the version that wrote it.`,
  )
}

/** Of data that do not exist yet. */
export function newMeta(clusterId: string): Meta {
  return { format, clusterId, restores: 0, term: 0, seq: 0, batch: '', secret: secret(16).toString('hex') }
}

export function headOf({ term, seq, batch, clusterId, restores, secret, heldMs, place = '' }: Meta): StorageHead {
  return { term, seq, batch, clusterId, restores, secret, incarnation: place, ...(heldMs !== undefined && { heldMs }) }
}
