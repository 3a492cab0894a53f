import { createHash } from 'node:crypto'
import type { GroupRecord } from '../storage/storage.ts'
import type { RefusalData } from './groups.ts'
import type { Group } from './group.ts'
import { isOwnGroup } from './own-groups.ts'

/** Of a group that was deleted: its term alone is kept. */
const tombstoneBytes = 300
const groupBytes = 500
/**
 * Texts up to this size are part of the price of every group. So a group that exists can always be led, even when the
 * budget is used up: a longer node id does not make the group larger.
 */
const includedTextBytes = 512

/** What a group takes in memory, about, when it is kept like this. On disk it takes less. */
export function bytesOf(id: string, record: GroupRecord): number {
  const { node = '', attempt = '', instance = '', meta = '', carry = '', allowed = [] } = record
  if (record.deleted && record.node === undefined) return tombstoneBytes + 2 * textBytes(id)
  const texts = [node, attempt, instance, meta, carry, ...allowed].reduce((sum, text) => sum + textBytes(text), 0)
  return groupBytes + 2 * textBytes(id) + Math.max(includedTextBytes, texts)
}

/** V8 keeps two bytes for each character as soon as one of them needs two. */
function textBytes(text: string): number {
  return /[\u0100-\uffff]/.test(text) ? 2 * text.length : text.length
}

/** A name for a subject that takes little space in records, and tells nobody who it is. */
export function shortSubject(subject: string): string {
  return createHash('sha256').update(subject).digest('base64url').slice(0, 12)
}

/** Why a group may not become as large as a write would make it. */
export type Room = (group: Group, record: GroupRecord) => RefusalData | undefined

/** How much memory groups take, in total and by the subject to which they are charged: the one that led them last. */
export class GroupBytes {
  readonly #max: number
  readonly #maxPerSubject: number
  readonly #bySubject = new Map<string, number>()
  #total = 0

  /** 0 for a subject means no limit. */
  constructor(max: number, maxPerSubject: number) {
    this.#max = max
    this.#maxPerSubject = maxPerSubject === 0 ? Infinity : maxPerSubject
  }

  get total(): number {
    return this.#total
  }

  /**
   * Why this write is refused. What makes a group no larger never is: neither a takeover, nor a renewal, nor an end may
   * fail because of what others keep. What the service keeps for itself, such as revocations, has no limit.
   */
  refusalOf(group: Group, record: GroupRecord): RefusalData | undefined {
    const bytes = bytesOf(group.id, record)
    if (bytes <= group.bytes || isOwnGroup(group.id)) return undefined
    if (this.#total + bytes - group.bytes > this.#max) {
      return refusal(`This service keeps at most ${this.#max} bytes of groups.`)
    }
    const { by } = record
    if (by === undefined) return undefined
    const others = (this.#bySubject.get(by) ?? 0) - (group.by === by ? group.bytes : 0)
    if (others + bytes <= this.#maxPerSubject) return undefined
    return refusal(`One subject may keep at most ${this.#maxPerSubject} bytes of groups.`)
  }

  /** While a write is in flight, a group counts as the larger of what it was and what it becomes. */
  begin(group: Group, record: GroupRecord): void {
    this.#set(group, record.by, Math.max(group.bytes, bytesOf(group.id, record)))
  }

  /** The storage has the group like this. */
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
  const advice = 'Use shorter metadata and carry, delete groups, or let the operator raise the limit.'
  return { code: 'RATE_LIMITED', message: `${text} ${advice}`, details: {} }
}
