import { secret } from '@tenure/internal/clock'
import { Damage } from './data-file.ts'
import { decodeRecord } from './record-text.ts'
import type { StorageHead } from './storage.ts'

/** The first record: the head, and what else is known about the file. */
export interface Meta extends Omit<StorageHead, 'incarnation'> {
  readonly format: typeof format | typeof unservedFormat
  /**
   * The head's incarnation: the file in which this was written, to notice a copy. Missing in data of early versions.
   */
  readonly place?: string | undefined
  /**
   * The file in which terms were skipped last. Skipping is not repeated there if someone forgets to remove the option.
   */
  readonly restoredAt?: string | undefined
  /** Where the data was moved to. */
  readonly movedTo?: string | undefined
  /** The data is being moved here and may be incomplete. */
  readonly isPartial?: boolean | undefined
}

/**
 * The format of the data. A version refuses every format that it does not know, with a clear message, so the first
 * record of all formats has this number and the same encoding.
 *
 * 1. The first record is written when it changes. It has no term, seq, batch, or secret.
 * 2. The first record is the head, and part of every commit. Group records have a seq, and say why a term ended.
 *    Records of format 1 stay as they are until they are written again.
 * 3. Like 2, for data that is not served because it is being moved, or was. The number differs so that no earlier
 *    version serves it.
 */
const format = 2
export const unservedFormat = 3

/** The first record as found, in any format that this version reads. */
export type FoundMeta = Partial<Omit<Meta, 'format'>> & { readonly format: 1 | Meta['format'] }

/** Throws if the record is damaged, or has a format that this version does not know. */
export function decodeMeta(record: string | undefined): FoundMeta {
  const found = record === undefined ? undefined : decodeRecord('meta', record)?.value
  if (!found) throw new Damage('its first record is damaged')
  const { format: foundFormat } = found as { readonly format: unknown }
  if (foundFormat === format || foundFormat === 1 || foundFormat === unservedFormat) return found as FoundMeta
  throw new Error(
    `it has format ${String(foundFormat)}; this version reads formats 1 to ${unservedFormat}. Use the version that wrote it.`,
  )
}

/** Returns the first record of new data. */
export function newMeta(clusterId: string): Meta {
  return { format, clusterId, restores: 0, term: 0, seq: 0, batch: '', secret: secret(16).toString('hex') }
}

export function headOf({ term, seq, batch, clusterId, restores, secret, heldMs, place = '' }: Meta): StorageHead {
  return { term, seq, batch, clusterId, restores, secret, incarnation: place, ...(heldMs !== undefined && { heldMs }) }
}
