import { messageOf } from '@tenure/internal/message'
import type { CallOptions } from 'tenure'
import { ServiceError } from '../common/errors.ts'
import { decodeBatch, encodeBatch, slotOf } from './batch-list.ts'
import { decodeHead, encodeHead, firstHead, type StoredHead } from './head-text.ts'
import { movedAway, partlyMoved } from './move-errors.ts'
import { decodeRecord, encodeRecord } from './record-text.ts'
import {
  isSameHead,
  type Appended,
  type Batch,
  type FollowerReads,
  type GroupsPage,
  type LoadedGroup,
  type GroupRecord,
  type History,
  type ListedBatch,
  type Loaded,
  type Storage,
  type StorageHead,
} from './storage.ts'

/** A group's id, and its record as text. */
export interface GroupText {
  readonly id: string
  readonly text: string
}

/** The state of a server and the head that it stores. */
export interface FoundServer {
  /** Undefined if there is no head. */
  readonly head: string | undefined
  /** Identifies the history of the server. The part after a slash changes with each failover. */
  readonly incarnation: string
  /** Whether everything up to the newest head would survive a failover. */
  readonly isSynced: boolean
  /** Why no write would be durable, and what to do. Undefined if writes are durable. */
  readonly problem?: string | undefined
  /** How many times an earlier history replaced one that this process had seen. Default: 0. */
  readonly replacements?: number | undefined
}

/** Groups in the server's order, and the head at the same moment. */
export interface GroupPage {
  readonly head: string | undefined
  readonly groups: readonly GroupText[]
  /** Where the next page begins. Undefined on the last page. */
  readonly next?: string | undefined
}

/**
 * The operations that a server must support: compare and swap one string, and write other strings in the same step. A
 * call that rejects may have been carried out, or may be carried out later.
 */
export interface StorageServer {
  /** The server's name in messages. */
  readonly name: string
  readonly maxBatch: Storage['maxBatch']
  /** Creates everything that the data needs. Called once, before all other calls. */
  prepare?(call: CallOptions): Promise<void>
  find(call: CallOptions): Promise<FoundServer>
  /** Writes this head if there is no head and no group. Otherwise changes nothing. */
  begin(head: string, call: CallOptions): Promise<void>
  swap(swap: Swap, call: CallOptions): Promise<SwapAnswer>
  page(from: string | undefined, limit: number, call: CallOptions): Promise<GroupPage>
  /**
   * Called after the last page. May save what makes the next load easier for the server. Must not depend on it, because
   * a failure is ignored.
   */
  loaded?(call: CallOptions): Promise<void>
  /** Reads the head and these groups at the same moment. A group without a record is left out. */
  groups(ids: readonly string[], call: CallOptions): Promise<GroupPage>
  /** Reads these entries of the list of batches. An entry that was never written is left out. */
  batches(slots: readonly number[], call: CallOptions): Promise<readonly BatchText[]>
  /** Makes a durable write that changes nothing. */
  check(call: CallOptions): Promise<void>
  close(): void | Promise<void>
}

/** An entry of the list of batches. */
export interface BatchText {
  readonly slot: number
  readonly text: string
}

/**
 * If the head is `over`, replaces it with `head`, and writes the groups and the entry of the list of batches. Otherwise
 * nothing changes.
 */
export interface Swap {
  readonly over: string
  readonly head: string
  readonly groups: readonly GroupText[]
  /** Undefined if the swap appends no batch. */
  readonly batch?: BatchText | undefined
  /** Allows the swap even if confirmed writes may have been lost, because the caller accounts for that. */
  readonly isRestored?: boolean | undefined
}

/** The outcome of a swap. If the swap was not done, `head` is the head that was found. */
export type SwapAnswer = { readonly swapped: true } | { readonly swapped: false; readonly head: string | undefined }

/** Shorter than the storage timeout of callers that wait for a write, so that they see the cause of a failure. */
const callMs = 4_000
const pageMs = 10_000

/**
 * How many bytes to read at once. The size of groups is known only after reading them, so each page has as many groups
 * as would have fit into the previous page.
 */
const pageBytes = 2 ** 20
/** The limit for a follower. A follower has more time, and its own requests must not wait while a page is parsed. */
const followerPageBytes = 2 ** 18
const firstOnPage = 100
const maxOnPage = 5_000
/** How many groups are handed over in one step. Other callbacks run in between. */
const maxInStep = 500
/** A transaction of etcd may have 128 operations. */
const maxRead = 120

interface FoundHead extends StoredHead {
  readonly text: string
}

/** The options of {@link ServerStorage.open}. */
export interface ServerStorageOptions {
  readonly server: StorageServer
  newId(): string
  /** Allows opening data whose move to this target has already begun. */
  readonly movingTo?: string | undefined
  /** Rejects if there is no data, instead of creating it. */
  readonly mustExist?: boolean | undefined
  /** Allows opening data that may have lost confirmed writes, because the caller accounts for that. */
  readonly restoring?: boolean | undefined
}

/**
 * Groups on a server that replicas share. A batch is one step on the server: it compares the head's text, which no two
 * heads share, and writes groups and head together. So a batch that is late, or carried out twice, finds another head
 * and changes nothing.
 */
export class ServerStorage implements Storage {
  readonly maxBatch: Storage['maxBatch']
  readonly #options: ServerStorageOptions
  readonly #server: StorageServer
  readonly #closing = new AbortController()
  readonly #inFlight = new Set<Promise<unknown>>()
  #replacements = 0
  /** The highest `restores` of any head that was read. */
  #restores = 0
  /**
   * The value of `#restores` when the history was replaced. Until a head has a higher value, the loss is not accounted
   * for.
   */
  #lostRestores: number | undefined

  private constructor(options: ServerStorageOptions) {
    this.#options = options
    this.#server = options.server
    this.maxBatch = options.server.maxBatch
  }

  /** Writes the first head if there is nothing yet. */
  static async open(options: ServerStorageOptions): Promise<ServerStorage> {
    const { server, newId, movingTo, mustExist = false, restoring = false } = options
    const storage = new ServerStorage(options)
    try {
      if (!mustExist) await storage.#ask(async (call) => server.prepare?.(call))
      const { head, incarnation, problem } = await storage.#ask((call) => server.find(call))
      if (problem !== undefined && !restoring) throw storage.#unusable(problem)
      if (head === undefined && movingTo === undefined && !restoring && !mustExist) {
        const first = encodeHead({ head: firstHead(newId(), incarnation) })
        await storage.#ask((call) => server.begin(first, call))
      }
      await storage.head()
      return storage
    } catch (error) {
      await storage.close()
      throw error
    }
  }

  async head(): Promise<StorageHead> {
    return (await this.#find()).head
  }

  async history(): Promise<History> {
    const { head, incarnation, isSynced } = await this.#find()
    const isSame = incarnation === head.incarnation
    const isComplete = isSame || (isSynced && systemOf(incarnation) === systemOf(head.incarnation))
    const lost = this.#lostRestores
    return lost === undefined || head.restores > lost
      ? { incarnation, isComplete }
      : { incarnation, isComplete: false, lostRestores: lost }
  }

  /** Finds the head, and records the state that a later replacement of the history would lose. */
  async #find(): Promise<Omit<FoundServer, 'head'> & { readonly head: StorageHead }> {
    const found = await this.#ask((call) => this.#server.find(call))
    const { head } = this.#headIn(found.head)
    const { replacements = 0 } = found
    if (replacements > this.#replacements) this.#lostRestores = this.#restores
    this.#replacements = replacements
    this.#restores = Math.max(this.#restores, head.restores)
    return { ...found, head }
  }

  async append(expected: StorageHead, batch: Batch): Promise<Appended> {
    const over = encodeHead({ head: expected })
    const { seq, batch: id } = batch.head
    const listed = { seq, batch: id, after: expected.batch, ids: batch.groups.map((group) => group.id) }
    const found = await this.#swap(over, batch, listed)
    if (!found) return 'done'
    const isOpen = found.movedTo === undefined && !found.isPartial
    if (isOpen && isSameHead(found.head, batch.head)) return this.#confirm(found, over)
    return 'fenced'
  }

  /** Returns undefined if the head was swapped, otherwise the head that was found instead. */
  async #swap(over: string, { head, groups }: Batch, listed?: ListedBatch): Promise<FoundHead | undefined> {
    const { seq } = head
    const texts = groups.map(({ id, record }) => ({ id, text: encodeRecord(id, record, { commit: 0, seq }) }))
    const batch = listed && { slot: slotOf(seq), text: encodeBatch(listed) }
    const swap = { over, head: encodeHead({ head }), groups: texts, batch, isRestored: this.#options.restoring }
    const answer = await this.#ask((call) => this.#server.swap(swap, call))
    if (!answer.swapped) return this.#decoded(answer.head)
    this.#restores = Math.max(this.#restores, head.restores)
    return undefined
  }

  /** Writes the current head, which followed `over`, again. */
  async #confirm({ head, text }: FoundHead, over: string): Promise<Appended> {
    const found = await this.#swap(text, { head, groups: [] })
    // A failover in between has lost a commit that was visible but not confirmed, and no other replica has written
    // since. The batch may still arrive.
    if (found?.text === over) throw rolledBack()
    return found ? 'fenced' : 'done'
  }

  async isRetired(): Promise<boolean> {
    const { head } = await this.#ask((call) => this.#server.find(call))
    return this.#headIn(head).movedTo !== undefined
  }

  /**
   * Marks the data as moved. After this resolves, nothing is appended, and nobody can open the data, except to move it
   * to that target.
   */
  async retire(movedTo: string): Promise<void> {
    for (;;) {
      const { head: found } = await this.#ask((call) => this.#server.find(call))
      const { head, text } = this.#headIn(found)
      // Write the mark even if it is already there. The mark that was read may be in an unconfirmed commit, which a
      // failover would lose.
      const swap = { over: text, head: encodeHead({ head, movedTo }), groups: [] }
      if ((await this.#ask((call) => this.#server.swap(swap, call))).swapped) return
    }
  }

  /**
   * Each page comes with the head. While the head stays the same no group has changed, because every append changes it.
   * So all pages show the same moment, however long the reads take, and the server need not keep a snapshot. If the
   * head changes, another replica is active.
   */
  async load(): Promise<Loaded> {
    const first = await this.#page(undefined, firstOnPage)
    const { head } = this.#headIn(first.head)
    return { head, pages: this.#pages(head, first) }
  }

  async *#pages(head: StorageHead, first: GroupPage): AsyncGenerator<readonly LoadedGroup[]> {
    let page = first
    let limit = firstOnPage
    for (;;) {
      const { groups, next: from } = page
      if (groups.length > 0) limit = fitting(groups)
      if (!isSameHead(this.#headIn(page.head).head, head)) throw overtaken()
      // Request the next page while this one is processed.
      const next = from === undefined ? undefined : this.#page(from, limit)
      next?.catch(() => {})
      yield* this.#parts(groups)
      if (!next) return
      page = await next
    }
  }

  *#parts(groups: readonly GroupText[]): Generator<readonly LoadedGroup[]> {
    for (let at = 0; at < groups.length; at += maxInStep) {
      yield groups.slice(at, at + maxInStep).map((group) => this.#groupIn(group))
    }
  }

  readonly follower: FollowerReads = {
    head: () => this.head(),
    maxRead,
    page: (from) => this.#pageAt(from),
    groups: async (ids) => {
      const { head, groups } = await this.#ask((call) => this.#server.groups(ids, call), pageMs)
      return { head: this.#headIn(head).head, parts: this.#parts(groups) }
    },
    batches: async (from, to) => {
      const seqs = Array.from({ length: to - from + 1 }, (_, index) => from + index)
      const texts = await this.#ask((call) => this.#server.batches(seqs.map(slotOf), call))
      const bySlot = new Map(texts.map(({ slot, text }) => [slot, text]))
      const listed = seqs.map((seq) => decodeBatch(seq, bySlot.get(slotOf(seq)) ?? ''))
      return new Map(listed.flatMap((batch) => (batch ? [[batch.seq, batch]] : [])))
    },
  }

  /** The text `from` contains the page's limit, and then the position where the page begins. */
  async #pageAt(from: string | undefined): Promise<GroupsPage> {
    const [limit = '', ...begin] = from === undefined ? [] : from.split(' ')
    const page = await this.#page(from === undefined ? undefined : begin.join(' '), Number(limit) || firstOnPage)
    const { groups } = page
    const nextLimit = groups.length > 0 ? fitting(groups, followerPageBytes) : firstOnPage
    const next = page.next === undefined ? undefined : `${nextLimit} ${page.next}`
    if (next === undefined) await this.#ask(async (call) => this.#server.loaded?.(call)).catch(() => undefined)
    return { head: this.#headIn(page.head).head, parts: this.#parts(groups), next }
  }

  #page(from: string | undefined, limit: number): Promise<GroupPage> {
    return this.#ask((call) => this.#server.page(from, limit, call), pageMs)
  }

  /** Throws if the record is damaged: the group's terms would be granted again. */
  #groupIn({ id, text }: GroupText): LoadedGroup {
    const decoded = decodeRecord(id, text)
    if (!decoded) throw this.#unusable(`the record of group ${JSON.stringify(id)} is damaged`)
    return { id, record: decoded.value as GroupRecord, seq: decoded.seq }
  }

  async check(): Promise<void> {
    await this.#ask((call) => this.#server.check(call))
  }

  async close(): Promise<void> {
    this.#closing.abort(new ServiceError('BACKEND_UNAVAILABLE', "This service's storage is closed."))
    await Promise.allSettled(this.#inFlight)
    await this.#server.close()
  }

  #headIn(text: string | undefined): FoundHead {
    const found = this.#decoded(text)
    const { movedTo, isPartial } = found
    if (movedTo !== undefined && movedTo !== this.#options.movingTo) throw this.#unusable(movedAway(movedTo))
    if (isPartial) throw this.#unusable(partlyMoved)
    return found
  }

  #decoded(text: string | undefined): FoundHead {
    if (text === undefined) throw this.#unusable('its head is missing')
    try {
      return { ...decodeHead(text), text }
    } catch (error) {
      throw this.#unusable(messageOf(error), error)
    }
  }

  async #ask<T>(ask: (call: CallOptions) => Promise<T>, timeoutMs = callMs): Promise<T> {
    const { signal } = this.#closing
    signal.throwIfAborted()
    const answer = ask({ signal, timeoutMs })
    this.#inFlight.add(answer)
    try {
      return await answer
    } finally {
      this.#inFlight.delete(answer)
    }
  }

  #unusable(reason: string, cause?: unknown): Error {
    return new Error(`${this.#server.name} cannot be used: ${reason.replace(/\.?$/, '.')}`, { cause })
  }
}

/** Returns the part of an incarnation that stays the same after a failover. */
function systemOf(incarnation: string): string | undefined {
  return incarnation.split('/')[0]
}

/** Returns how many groups the next page may have, if they are as large as these. */
function fitting(groups: readonly GroupText[], maxBytes = pageBytes): number {
  const bytes = groups.reduce((sum, { id, text }) => sum + id.length + text.length, 0)
  return Math.max(1, Math.min(maxOnPage, Math.floor((maxBytes * groups.length) / Math.max(1, bytes))))
}

function rolledBack(): ServiceError {
  const text = 'A failover of the storage lost a write that was not confirmed yet. Retry the request.'
  return new ServiceError('BACKEND_UNAVAILABLE', text)
}

function overtaken(): ServiceError {
  return new ServiceError(
    'BACKEND_UNAVAILABLE',
    'Another replica wrote to the storage while the groups were being read.',
  )
}
