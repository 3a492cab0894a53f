/** The head as text, for storages that keep it as one value. */
import { secret } from '@tenure/internal/clock'
import { decodeRecord, encodeRecord } from './record-text.ts'
import type { StorageHead } from './storage.ts'

/** Each version refuses unknown formats with a clear message. */
const format = 1
const key = 'head'

/** A head, and the reason why nothing may be appended to it, if any. */
export interface StoredHead {
  readonly head: StorageHead
  /** Where the data was moved to. */
  readonly movedTo?: string | undefined
  /** The data is being moved here and may be incomplete. */
  readonly isPartial?: boolean | undefined
}

/** Returns the head of new data. */
export function firstHead(clusterId: string, incarnation: string): StorageHead {
  return { term: 0, seq: 0, batch: '', clusterId, restores: 0, incarnation, secret: secret(16).toString('hex') }
}

/** Always returns the same text for the same head, because storages compare it. */
export function encodeHead({ head, movedTo, isPartial }: StoredHead): string {
  const { term, seq, batch, clusterId, restores, incarnation, secret: hidden, heldMs } = head
  const value: object = {
    format,
    term,
    seq,
    batch,
    clusterId,
    restores,
    incarnation,
    secret: hidden,
    heldMs,
    movedTo,
    isPartial,
  }
  return encodeRecord(key, value, { commit: 0, seq })
}

/** Throws if the head is damaged, or has a format that this version does not know. */
export function decodeHead(text: string): StoredHead {
  const found = decodeRecord(key, text)?.value as (StorageHead & Omit<StoredHead, 'head'> & Formatted) | undefined
  if (!found) throw new Error('its head is damaged')
  const { format: foundFormat, movedTo, isPartial, ...head } = found
  if (foundFormat === format) return { head, movedTo, isPartial }
  throw new Error(
    `it has format ${String(foundFormat)}; this version reads format ${format}. Use the version that wrote it.`,
  )
}

interface Formatted {
  readonly format: unknown
}
