/**
 * The list of the newest batches in a storage that replicas share, as texts. It is a ring: each batch replaces the one
 * that was appended {@link listedBatches} batches earlier.
 */
import { decodeRecord, encodeRecord } from './record-text.ts'
import type { ListedBatch } from './storage.ts'

/**
 * How many batches are listed. A follower may miss this many, which is several seconds of full load, before it has to
 * load all groups again. At full load the list takes 10 MB.
 */
export const listedBatches = 4_096

/** The entry of the list that a batch replaces, from 0. */
export function slotOf(seq: number): number {
  return seq % listedBatches
}

export function encodeBatch(batch: ListedBatch): string {
  const value: object = batch
  return encodeRecord(keyOf(batch.seq), value, { commit: 0, seq: batch.seq })
}

/**
 * Returns undefined if the entry does not describe this batch: it may describe an earlier or a later one, or be empty.
 */
export function decodeBatch(seq: number, text: string): ListedBatch | undefined {
  const decoded = decodeRecord(keyOf(seq), text)
  return decoded?.seq === seq ? (decoded.value as ListedBatch) : undefined
}

function keyOf(seq: number): string {
  return `batch ${slotOf(seq)}`
}
