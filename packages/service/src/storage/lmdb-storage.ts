import { closeSync, constants, statSync, truncateSync } from 'node:fs'
import { constants as system } from 'node:os'
import { dirname, join } from 'node:path'
import { open, type Database, type RootDatabase } from 'lmdb'
import { Pace } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import { fileNames, prepareDataDirectory } from './data-directory.ts'
import { Damage, isCopy, placeOf, prepareLockFile, readHeader, settledPlaceOf, sync } from './data-file.ts'
import { DirectoryLock, inUse, openOwn, type OpenFile } from './directory-lock.ts'
import { decodeMeta, headOf, newMeta, unservedFormat, type FoundMeta, type Meta } from './first-record.ts'
import { movedAway, partlyMoved } from './moved.ts'
import { Reserve } from './reserve.ts'
import { decodeRecord, encodeRecord, type Decoded } from './record-text.ts'
import {
  judgeAppend,
  type Appended,
  type Batch,
  type FoundGroup,
  type GroupRecord,
  type Loaded,
  type Storage,
  type StorageHead,
} from './storage.ts'
import { unusable, waysOn } from './unusable.ts'

/** The place of a backup, which is nowhere. */
const backup = 'backup'

/** Groups that are read at once: others run in between. */
const pageGroups = 1_000
/** There is a proof in every second. */
const proofsPerLook = 60

/** What LMDB tells of itself, as far as it is used here. */
interface Stats {
  readonly pageSize: number
  readonly lastPageNumber: number
  readonly entryCount: number
  readonly lastTxnId: number
}

interface Put {
  readonly to: Database<string, string>
  readonly key: string
  readonly value: object
  /** Default: that of the head. */
  readonly seq?: number | undefined
}

/** What {@link LmdbStorage.open} takes. */
export interface LmdbStorageOptions {
  readonly directory: string
  newId(): string
  /**
   * Whether the data may be a copy or older than they were. Default: no, they are refused. `yes`: terms are skipped.
   * `once`: likewise, unless it was done in this very directory. `never`: they become a backup, and are not served.
   */
  readonly restored?: 'yes' | 'once' | 'never' | undefined
  readonly allowNetworkFilesystem?: boolean | undefined
  /** The name of the data. Default: elections.mdb. */
  readonly file?: string | undefined
  /** The move of the data to there may have begun before. */
  readonly movingTo?: string | undefined
  /** Data are moved here, or were before, but not all of them. */
  readonly movingHere?: boolean | undefined
}

/**
 * The data directory: LMDB, held by one process at a time.
 *
 * LMDB writes the pages of a commit beside those in use, syncs them, and only then writes and syncs the one page that
 * points to them. Its default in this package, to sync later while the next commit is under way, is turned off:
 *
 * - a commit that was answered is on disk, and a torn or lost tail leaves the commit before;
 * - where writing or syncing its pages fails, nothing points to them, and the next commit writes all its pages again.
 *   So a failed sync, after which Linux takes lost pages for clean, harms nothing that was ever answered. A full disk
 *   is such a case: it is as if the commit had not been asked for, and it can be tried again;
 * - where writing the pointer fails, nobody knows which commit the disk has. LMDB refuses all work from then on, and so
 *   does this class until the process is started again: {@link open} syncs the file first, so that what is read is what
 *   is there.
 *
 * One commit at a time is handed to LMDB, because it never answers those that wait behind one after which it refuses
 * all work.
 */
export class LmdbStorage implements Storage {
  readonly maxBatch = { groups: Infinity, bytes: Infinity }
  /** What should be changed about the directory. */
  readonly warnings: readonly string[]
  readonly #directory: string
  readonly #root: RootDatabase
  readonly #metas: Database<string, string>
  readonly #groups: Database<string, string>
  readonly #lock: DirectoryLock
  readonly #data: OpenFile
  readonly #reserve: Reserve
  /** The first record as it was found. */
  readonly #found: FoundMeta | undefined
  /** The data may be older than they were. */
  readonly #restored: LmdbStorageOptions['restored']
  /** This directory has had newer data. */
  readonly #isOlder: boolean
  #hasSkipped = false
  #meta: Meta
  #lastCommit: number
  #proofs = 0
  #broken: ServiceError | undefined
  /** What uses the files. */
  readonly #underWay = new Set<Promise<void>>()
  #isClosed = false

  private constructor(lock: DirectoryLock, warnings: readonly string[], options: LmdbStorageOptions) {
    const { directory, newId, restored, file = fileNames.data } = options
    const path = join(directory, file)
    this.warnings = warnings
    this.#directory = directory
    this.#lock = lock
    this.#restored = restored
    prepareLockFile(`${path}-lock`)
    this.#isOlder = this.#checkAge(readHeader(path))
    // Batches are made here: of those that the package makes by itself it leaves a promise that nobody hears reject.
    this.#root = open({ path, maxDbs: 4, encoding: 'string', overlappingSync: false, eventTurnBatching: false })
    this.#data = { path, file: openOwn(path, constants.O_RDWR) }
    try {
      if (!lock.takeToo(this.#data.file)) throw new Error(inUse)
      // Where pages are missing at the end, reading them is an error then, and not a signal that ends the process.
      const { pageSize, lastPageNumber } = this.#root.getStats() as Stats
      const bytes = pageSize * (lastPageNumber + 1)
      if (statSync(path).size < bytes) truncateSync(path, bytes)
      this.#reserve = new Reserve(this.#data.file, pageSize)
      this.#metas = this.#root.openDB({ name: 'meta', encoding: 'string' })
      this.#groups = this.#root.openDB({ name: 'groups', encoding: 'string' })
      this.#lastCommit = this.#commits()
      this.#found = this.#readMeta()
      this.#meta = this.#completed(newMeta(newId()), options)
      if (this.#isCopy && !restored) throw this.#refusedCopy()
      if (this.#isAgeless && !restored) throw this.#refusedAgeless()
    } catch (error) {
      void this.#closeFiles()
      throw error
    }
  }

  /** Whether there were no data before. */
  get isNew(): boolean {
    return this.#found === undefined
  }

  /** Whether terms were skipped because of {@link LmdbStorageOptions.restored}. */
  get hasSkipped(): boolean {
    return this.#hasSkipped
  }

  static async open(options: LmdbStorageOptions): Promise<LmdbStorage> {
    const { directory, allowNetworkFilesystem = false } = options
    const refuse = (error: unknown) => {
      throw unusable(directory, error)
    }
    const warnings = await prepareDataDirectory(directory, allowNetworkFilesystem).catch(refuse)
    const lock = await DirectoryLock.take(directory).catch(refuse)
    let storage: LmdbStorage | undefined
    try {
      storage = new LmdbStorage(lock, warnings, options)
      await storage.#begin()
      return storage
    } catch (error) {
      if (storage) void storage.#closeFiles()
      lock.release()
      throw unusable(directory, error)
    }
  }

  async #begin(): Promise<void> {
    await this.#note(await settledPlaceOf(this.#data.file))
    this.#lock.note(this.#lastCommit)
    this.#lock.sign()
    if (this.#lock.commits !== undefined) return
    this.#lock.sync()
    // A new file is lost with its directory's entry.
    for (const path of [this.#directory, dirname(this.#directory)]) sync(path, 'r')
  }

  /**
   * In one commit: after a crash, data that were refused either still are, or have been restored, and data of an earlier
   * format either still are, or have been upgraded.
   */
  async #note(place: string): Promise<void> {
    const meta = this.#meta
    const { restoredAt } = meta
    if (!this.#found) return this.#writeMeta({ ...meta, place })
    const isIncomplete = meta.place === undefined || this.#found.format !== meta.format
    // A commit on top would hide that the newest ones are lost.
    if (this.#restored || isIncomplete) for await (const _ of this.#pages());
    // In the format that was found: who goes back to the version before needs a backup that it reads.
    if (this.#restored === 'never') return this.#writeMeta(meta, { ...this.#found, place: backup })
    const isRefused = this.#isCopy || this.#isOlder || this.#isAgeless
    const isDone = this.#restored === 'once' && !isRefused && restoredAt !== undefined && !isCopy(restoredAt, place)
    if (this.#restored && !isDone) {
      await this.#writeMeta({ ...meta, restores: meta.restores + 1, place, restoredAt: place })
      this.#hasSkipped = true
      return
    }
    if (isIncomplete) await this.#complete({ ...meta, place: meta.place ?? place })
  }

  async #complete(meta: Meta): Promise<void> {
    try {
      await this.#writeMeta(meta)
    } catch (error) {
      if (this.#broken || !isFull(error)) throw error
      // The first write that finds room does it.
      this.#meta = meta
    }
  }

  #writeMeta(meta: Meta, record: FoundMeta = meta): Promise<void> {
    return this.#commit(meta, [{ to: this.#metas, key: 'meta', value: record }])
  }

  #readMeta(): FoundMeta | undefined {
    const record = this.#metas.get('meta')
    return record === undefined && this.#count() === 0 ? undefined : decodeMeta(record)
  }

  /** Whether this directory has had newer data. Throws where that is not said to be so. */
  #checkAge(commits: number | undefined): boolean {
    const least = this.#lock.commits
    if (least === undefined) return false
    if (commits === undefined) throw new Damage('elections.mdb is missing or empty')
    if (commits >= least) return false
    if (this.#restored) return true
    throw new Error(`elections.mdb is older than what this directory has had. ${waysOn(this.#directory)}`)
  }

  /** What was found, in the newest format. Throws where it was moved, or is being moved. */
  #completed(meta: Meta, { restored, movingTo, movingHere = false }: LmdbStorageOptions): Meta {
    const { movedTo, isPartial = false, ...found } = this.#found ?? {}
    if (movingHere && this.#found && !isPartial) throw new Error('there are data in it. Name a new directory')
    if (movingHere) return { ...meta, ...found, format: unservedFormat, isPartial: true }
    if (isPartial) throw new Error(partlyMoved)
    // Whoever says that this is the newest that there is gets it back.
    if (movedTo === undefined || restored === 'yes') return { ...meta, ...found, format: meta.format }
    if (movedTo !== movingTo) throw new Error(movedAway(movedTo))
    return { ...meta, ...found, format: unservedFormat, movedTo }
  }

  get #isCopy(): boolean {
    const { place } = this.#meta
    return place !== undefined && isCopy(place, placeOf(this.#data.file))
  }

  /** Whether nothing says how old data with groups may be. Before the first group is written, the lock file says it. */
  get #isAgeless(): boolean {
    return !this.#lock.commits && this.#count() > 0
  }

  #refusedAgeless(): Error {
    const what = 'its file lock is missing, empty or damaged, so that these data may be old ones, or in use'
    return new Error(`${what}. ${waysOn(this.#directory)}`)
  }

  #refusedCopy(): Error {
    const what = this.#meta.place === backup ? 'it is a backup' : 'it is a copy, or was put back'
    return new Error(`${what}. ${waysOn(this.#directory)}`)
  }

  async load(): Promise<Loaded> {
    return { head: headOf(this.#meta), pages: this.#pages() }
  }

  /** Throws where anything is not as it was written: the terms of a group that is missing would be granted again. */
  async *#pages(): AsyncGenerator<readonly FoundGroup[]> {
    const pace = new Pace()
    let left = this.#count()
    let newest = 0
    let before: string | undefined
    for (const { key, value } of this.#metas.getRange()) {
      newest = Math.max(newest, this.#decoded(key, value).commit)
    }
    for (;;) {
      const page: FoundGroup[] = []
      const from = before === undefined ? {} : { start: before, exclusiveStart: true }
      for (const { key, value } of this.#groups.getRange({ ...from, limit: pageGroups })) {
        const { commit, seq, value: record } = this.#decoded(key, value)
        newest = Math.max(newest, commit)
        if (key !== before) left -= 1
        before = key
        page.push({ id: key, record: record as GroupRecord, seq })
      }
      // Fewer than none: the order of the keys is damaged, and there may be no end to this.
      if (page.length === 0 || left < 0) break
      yield page
      if (pace.isOver) await pace.pause()
    }
    if (left !== 0) throw this.#damaged('groups are missing')
    // Every commit leaves its number in what it wrote. LMDB has two pointers, of the odd and the even ones, and takes the
    // one with the higher number. If that is wrong, what came since is lost.
    const late = this.#commits() - newest
    if ((!this.#restored || this.#restored === 'never') && (late < 0 || late > 1))
      throw this.#damaged(`its newest commit is ${newest}, not ${newest + late}`)
  }

  #decoded(key: string, record: string): Decoded {
    const decoded = decodeRecord(key, record)
    if (decoded) return decoded
    throw this.#damaged(`the record of group ${JSON.stringify(key)} is damaged`)
  }

  #commits(): number {
    return (this.#root.getStats() as Stats).lastTxnId
  }

  #count(): number {
    return (this.#groups.getStats() as Stats).entryCount
  }

  #damaged(what: string): Error {
    return this.unusable(new Damage(what))
  }

  /** Why these data cannot be served. */
  unusable(cause: unknown): Error {
    return unusable(this.#directory, cause)
  }

  /** Gets ready for {@link prove}. */
  startProofs(): void {
    this.#lock.startProofs()
  }

  /** Rejects unless this process still owns the directory and can write to it: see {@link DirectoryLock.prove}. */
  prove(): Promise<void> {
    return this.#whileOpen(() => this.#prove())
  }

  async #prove(): Promise<void> {
    await this.#lock.prove([this.#data])
    this.#proofs += 1
    // Lets go of pages that a backup has kept which was killed. That touches a file that is mapped, which stops the
    // process on a disk that does not answer; this one just did.
    if (this.#proofs % proofsPerLook === 0 && !this.#broken) this.#root.readerCheck()
  }

  async head(): Promise<StorageHead> {
    return headOf(this.#meta)
  }

  /** The head in memory is the one on disk: while this process has the lock nobody else writes. */
  async append(expected: StorageHead, batch: Batch): Promise<Appended> {
    const judged = judgeAppend(headOf(this.#meta), expected, batch)
    if (judged === 'fenced') return judged
    if (judged === 'confirm') {
      await this.#writeMeta(this.#meta)
      return 'done'
    }
    const { head, groups } = batch
    const { incarnation: place, ...rest } = head
    const meta = { ...this.#meta, heldMs: undefined, ...rest, place }
    const first = { to: this.#metas, key: 'meta', value: meta }
    await this.#commit(meta, [...groups.map(({ id, record }) => ({ to: this.#groups, key: id, value: record })), first])
    return 'done'
  }

  async isRetired(): Promise<boolean> {
    return this.#meta.movedTo !== undefined
  }

  /** From now on nobody opens these data any more, except to move them there. */
  async retire(movedTo: string): Promise<void> {
    await this.#writeMeta({ ...this.#meta, format: unservedFormat, movedTo })
  }

  /** Puts groups here that are moved, each with its own seq. */
  async fill(groups: readonly FoundGroup[]): Promise<void> {
    const puts = groups.map(({ id, record, seq }) => ({ to: this.#groups, key: id, value: record, seq }))
    await this.#commit(this.#meta, [...puts, { to: this.#metas, key: 'meta', value: this.#meta }])
  }

  /** All is here that is moved. It has this head. */
  async finish(head: StorageHead): Promise<void> {
    const { term, seq, batch, clusterId, restores, secret, heldMs } = head
    const { place } = this.#meta
    await this.#writeMeta({ ...newMeta(clusterId), term, seq, batch, restores, secret, heldMs, place })
  }

  /** With the head, so that it needs as much room as the smallest append. */
  async check(): Promise<void> {
    const check = { to: this.#metas, key: 'check', value: {} }
    await this.#commit(this.#meta, [check, { to: this.#metas, key: 'meta', value: this.#meta }])
  }

  /** Resolves once it would survive a power cut. `meta` is the first record from then on. */
  #commit(meta: Meta, records: readonly Put[]): Promise<void> {
    return this.#whileOpen(() => this.#put(meta, records))
  }

  async #put(meta: Meta, records: readonly Put[]): Promise<void> {
    if (this.#broken) throw this.#broken
    try {
      const numbers = { commit: this.#lastCommit + 1, seq: meta.seq }
      const puts = records.map(({ to, key, value, seq = numbers.seq }) => {
        return { to, key, text: encodeRecord(key, value, { ...numbers, seq }) }
      })
      await this.#reserve.take(puts.map(({ key, text }) => key.length + text.length))
      await this.#root.batch(() => {
        for (const { to, key, text } of puts) void to.put(key, text)
      })
      this.#lastCommit = numbers.commit
      this.#meta = meta
      this.#lock.note(numbers.commit)
      // What was written elsewhere than where the next service looks was not made durable.
      await this.#lock.requirePlace([this.#data])
    } catch (cause) {
      // The package rejects this promise as well; unheard, that would end the process.
      const { commitError } = cause as { commitError?: Promise<never> }
      const reason = await commitError?.catch((error: unknown) => error)
      throw this.#failed(reason ?? cause)
    }
  }

  #failed(cause: unknown): ServiceError {
    try {
      this.#root.resetReadTxn()
      this.#metas.get('meta')
      return new ServiceError('BACKEND_UNAVAILABLE', 'The data directory cannot be written.', { cause })
    } catch {
      const message = 'The data directory failed in the middle of a commit. The service must be started anew.'
      this.#broken = new ServiceError('BACKEND_UNAVAILABLE', message, { cause })
      return this.#broken
    }
  }

  /** The number of a file that was closed may be another file's by now: nothing is written to it any more. */
  async #whileOpen(work: () => Promise<void>): Promise<void> {
    if (this.#isClosed) throw new ServiceError('BACKEND_UNAVAILABLE', 'The data directory is closed.')
    const done = work().finally(() => this.#underWay.delete(done))
    this.#underWay.add(done)
    await done
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.allSettled(this.#underWay)
    await this.#lock.stopProofs()
    await this.#closeFiles()
    this.#lock.sync()
    this.#lock.release()
  }

  #closeFiles(): Promise<void> {
    this.#lock.free(this.#data.file)
    closeSync(this.#data.file)
    return this.#root.close()
  }
}

/** Whether a write failed for want of room. Node gives the name of an error, LMDB its number. */
function isFull(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { readonly code?: unknown }
  const { ENOSPC, EDQUOT } = system.errno
  return code === 'ENOSPC' || code === 'EDQUOT' || code === ENOSPC || code === EDQUOT
}
