/** The head as text, for storages that keep it as one value. */
import { secret } from '@tenure/internal/clock'
import { decodeRecord, encodeRecord } from './record-text.ts'
import type { StorageHead } from './storage.ts'

/** A version refuses every format but those that it knows, in words. */
const format = 1
const key = 'head'

/** A head, and why nothing is appended to it, if that is so. */
export interface KeptHead {
  readonly head: StorageHead
  /** Where the data were moved to. */
  readonly movedTo?: string | undefined
  /** The data are being moved here. Those that are there may not be all. */
  readonly isPartial?: boolean | undefined
}

/** Of data that do not exist yet. */
export function firstHead(clusterId: string, incarnation: string): StorageHead {
  return { term: 0, seq: 0, batch: '', clusterId, restores: 0, incarnation, secret: secret(16).toString('hex') }
}

/** The same text for the same head, always: storages compare it. */
export function encodeHead({ head, movedTo, isPartial }: KeptHead): string {
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

/** Throws for what is damaged, and for formats that this version does not know. */
export function decodeHead(text: string): KeptHead {
  const found = decodeRecord(key, text)?.value as (StorageHead & Omit<KeptHead, 'head'> & Formatted) | undefined
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
