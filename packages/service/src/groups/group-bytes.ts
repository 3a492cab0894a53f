import { createHash } from 'node:crypto'
import type { GroupRecord } from '../storage/storage.ts'
import type { RefusalData } from './port.ts'
import type { Group } from './in-memory-group.ts'
import { isReservedGroup } from './reserved-groups.ts'

/** The size of a deleted group, for which only the term is kept. */
const tombstoneBytes = 300
const groupBytes = 500
/**
 * Texts up to this size are included in the base size of every group. So an existing group can always be led, even when
 * the budget is used up: a longer node id does not make the group larger.
 */
const includedTextBytes = 512

/** Returns approximately how much memory a group takes with this record. On disk it takes less. */
export function bytesOf(id: string, record: GroupRecord): number {
  const { node = '', attempt = '', instance = '', meta = '', checkpoint = '', successor = '', allowed = [] } = record
  if (record.deleted && record.node === undefined) return tombstoneBytes + 2 * textBytes(id)
  const texts = [node, attempt, instance, meta, checkpoint, successor, ...allowed].reduce(
    (sum, text) => sum + textBytes(text),
    0,
  )
  return groupBytes + 2 * textBytes(id) + Math.max(includedTextBytes, texts)
}

/** V8 uses two bytes for every character if any of them needs two. */
function textBytes(text: string): number {
  return /[\u0100-\uffff]/.test(text) ? 2 * text.length : text.length
}

/** Returns a short name for a subject, which saves space in records and does not reveal the subject. */
export function shortSubject(subject: string): string {
  return createHash('sha256').update(subject).digest('base64url').slice(0, 12)
}

/** Returns why a write may not make a group larger, or undefined if it may. */
export type GrowthCheck = (group: Group, record: GroupRecord) => RefusalData | undefined

/** How much memory groups take, in total and by subject. A group is charged to the subject that led it last. */
export class GroupBytes {
  readonly #max: number
  readonly #maxPerSubject: number
  readonly #bySubject = new Map<string, number>()
  #total = 0

  /** `maxPerSubject` 0 means no limit. */
  constructor(max: number, maxPerSubject: number) {
    this.#max = max
    this.#maxPerSubject = maxPerSubject === 0 ? Infinity : maxPerSubject
  }

  get total(): number {
    return this.#total
  }

  /**
   * Returns why this write is refused, or undefined if it is not. A write that does not make a group larger is never
   * refused: a takeover, a renewal, or an end must not fail because other groups use the memory. The service's own
   * groups, such as revocations, have no limit.
   */
  refusalOf(group: Group, record: GroupRecord): RefusalData | undefined {
    const bytes = bytesOf(group.id, record)
    if (bytes <= group.bytes || isReservedGroup(group.id)) return undefined
    if (this.#total + bytes - group.bytes > this.#max) {
      return refusal(`The groups of this service would exceed their limit of ${this.#max} bytes.`)
    }
    const { by } = record
    if (by === undefined) return undefined
    const others = (this.#bySubject.get(by) ?? 0) - (group.by === by ? group.bytes : 0)
    if (others + bytes <= this.#maxPerSubject) return undefined
    return refusal(`The groups of one subject may take at most ${this.#maxPerSubject} bytes.`)
  }

  /** Counts a group as the larger of its old and new size while a write is in flight. */
  begin(group: Group, record: GroupRecord): void {
    this.#set(group, record.by, Math.max(group.bytes, bytesOf(group.id, record)))
  }

  /** Sets the size of a group from its stored record. */
  set(group: Group, record: GroupRecord): void {
    this.#set(group, record.by, bytesOf(group.id, record))
  }

  forget(group: Group): void {
    this.#set(group, undefined, 0)
  }

  #set(group: Group, by: string | undefined, bytes: number): void {
    this.#add(group.by, -group.bytes)
    group.by = by
    group.bytes = bytes
    this.#add(by, bytes)
  }

  #add(by: string | undefined, bytes: number): void {
    this.#total += bytes
    if (by === undefined) return
    const sum = (this.#bySubject.get(by) ?? 0) + bytes
    if (sum === 0) this.#bySubject.delete(by)
    else this.#bySubject.set(by, sum)
  }
}

function refusal(text: string): RefusalData {
  const advice = 'Use shorter metadata and checkpoint, delete groups, or ask the operator to raise the limit.'
  return { code: 'RATE_LIMITED', message: `${text} ${advice}`, details: {} }
}
