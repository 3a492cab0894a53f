import { closeSync, constants, statSync, truncateSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { open, type Database, type RootDatabase } from 'lmdb'
import { TimeSlice } from '../common/clock.ts'
import { ServiceError } from '../common/errors.ts'
import { fileNames, prepareDataDirectory } from './data-directory.ts'
import {
  DamagedDataError,
  isCopy,
  fileIdentity,
  prepareLockFile,
  readHeader,
  settledFileIdentity,
  sync,
} from './data-file.ts'
import { DirectoryLock, inUse, openOwn, type OpenFile } from './directory-lock.ts'
import { decodeMeta, headOf, newMeta, type Meta } from './first-record.ts'
import { movedAway, partlyMoved } from './move-errors.ts'
import { DiskReserve } from './disk-reserve.ts'
import { decodeRecord, encodeRecord, type Decoded } from './record-text.ts'
import {
  judgeAppend,
  type Appended,
  type Batch,
  type LoadedGroup,
  type GroupRecord,
  type Loaded,
  type Storage,
  type StorageHead,
} from './storage.ts'
import { unusable, staleDataAdvice } from './data-directory-errors.ts'

/** The file identity stored in a backup. It matches no file. */
const backup = 'backup'

/** How many groups are read at a time. Other callbacks run in between. */
const pageGroups = 1_000
/** How many proofs are made between two checks for dead readers. There is one proof per second. */
const proofsPerLook = 60

/** The LMDB statistics that are used here. */
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
  /** The default is the head's seq. */
  readonly seq?: number | undefined
}

/** The options of {@link LmdbStorage.open}. */
export interface LmdbStorageOptions {
  readonly directory: string
  newId(): string
  /**
   * Whether to accept data that is a copy, or is older than before. By default, such data is refused. `yes`: terms are
   * skipped. `never`: the data becomes a backup, and is not served.
   */
  readonly restored?: 'yes' | 'never' | undefined
  readonly allowNetworkFilesystem?: boolean | undefined
  /** The file name of the data. Default: elections.mdb. */
  readonly file?: string | undefined
  /** Allows opening data whose move to this target has already begun. */
  readonly movingTo?: string | undefined
  /** The data is being moved here. An earlier attempt may have left part of it. */
  readonly movingHere?: boolean | undefined
}

/**
 * The data directory: an LMDB database that one process uses at a time.
 *
 * LMDB writes the pages of a commit next to those in use, syncs them, and only then writes and syncs the one page that
 * points to them. The default of the lmdb package, to sync later while the next commit is in progress, is turned off:
 *
 * - A commit that was answered is on disk, and a torn or missing end leaves the previous commit.
 * - If writing or syncing its pages fails, nothing points to them, and the next commit writes all its pages again. So a
 *   failed sync, after which Linux treats lost pages as clean, harms nothing that was ever answered. A full disk is
 *   such a case: the commit has no effect, and can be retried.
 * - If writing the pointer fails, it is unknown which commit is on disk. LMDB refuses all work from then on, and so
 *   does this class until the process is restarted: {@link open} syncs the file first, so that reads return what is on
 *   disk.
 *
 * LMDB gets one commit at a time, because it never answers commits that wait behind one after which it refuses all
 * work.
 */
export class LmdbStorage implements Storage {
  readonly maxBatch = { groups: Infinity, bytes: Infinity }
  /** Warnings about settings of the directory that should be changed. */
  readonly warnings: readonly string[]
  readonly #directory: string
  readonly #root: RootDatabase
  readonly #metas: Database<string, string>
  readonly #groups: Database<string, string>
  readonly #lock: DirectoryLock
  readonly #data: OpenFile
  readonly #reserve: DiskReserve
  /** The first record as found. Undefined for new data. */
  readonly #found: Meta | undefined
  /** See {@link LmdbStorageOptions.restored}. */
  readonly #restored: LmdbStorageOptions['restored']
  #meta: Meta
  #lastCommit: number
  #proofs = 0
  #broken: ServiceError | undefined
  /** Operations that use the files. */
  readonly #inFlight = new Set<Promise<void>>()
  #isClosed = false

  private constructor(lock: DirectoryLock, warnings: readonly string[], options: LmdbStorageOptions) {
    const { directory, newId, restored, file = fileNames.data } = options
    const path = join(directory, file)
    this.warnings = warnings
    this.#directory = directory
    this.#lock = lock
    this.#restored = restored
    prepareLockFile(`${path}-lock`)
    this.#checkAge(readHeader(path))
    // Batches are made here. For batches that it makes itself, the lmdb package would leave a rejected promise
    // unhandled.
    this.#root = open({ path, maxDbs: 4, encoding: 'string', overlappingSync: false, eventTurnBatching: false })
    this.#data = { path, file: openOwn(path, constants.O_RDWR) }
    try {
      if (!lock.lockAlso(this.#data.file)) throw new Error(inUse)
      // With this option, reading missing pages at the end of the file fails with an error instead of a signal that
      // kills the process.
      const { pageSize, lastPageNumber } = this.#root.getStats() as Stats
      const bytes = pageSize * (lastPageNumber + 1)
      if (statSync(path).size < bytes) truncateSync(path, bytes)
      this.#reserve = new DiskReserve(this.#data.file, pageSize)
      this.#metas = this.#root.openDB({ name: 'meta', encoding: 'string' })
      this.#groups = this.#root.openDB({ name: 'groups', encoding: 'string' })
      this.#lastCommit = this.#commits()
      this.#found = this.#readMeta()
      this.#meta = this.#completed(newMeta(newId(), fileIdentity(this.#data.file)), options)
      if (this.#isCopy && !restored) throw this.#refusedCopy()
      if (this.#isAgeless && !restored) throw this.#refusedAgeless()
    } catch (error) {
      void this.#closeFiles()
      throw error
    }
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
    await this.#note(await settledFileIdentity(this.#data.file))
    this.#lock.note(this.#lastCommit)
    this.#lock.sign()
    if (this.#lock.commits !== undefined) return
    this.#lock.sync()
    // A new file is lost together with its directory entry unless the directory is synced.
    for (const path of [this.#directory, dirname(this.#directory)]) sync(path, 'r')
  }

  /** Everything is in one commit, so that after a crash, refused data is either still refused or has been restored. */
  async #note(place: string): Promise<void> {
    const meta = this.#meta
    if (!this.#found) return this.#writeMeta({ ...meta, place })
    if (!this.#restored) return
    // Check that all groups are readable, because a further commit would hide that the newest ones are lost.
    for await (const _ of this.#pages());
    if (this.#restored === 'never') return this.#writeMeta({ ...meta, place: backup })
    await this.#writeMeta({ ...meta, restores: meta.restores + 1, place })
  }

  #writeMeta(meta: Meta): Promise<void> {
    return this.#commit(meta, [{ to: this.#metas, key: 'meta', value: meta }])
  }

  #readMeta(): Meta | undefined {
    const record = this.#metas.get('meta')
    return record === undefined && this.#count() === 0 ? undefined : decodeMeta(record)
  }

  /** Throws if this directory has had newer data, unless `restored` allows that. */
  #checkAge(commits: number | undefined): void {
    const least = this.#lock.commits
    if (least === undefined) return
    if (commits === undefined) throw new DamagedDataError('elections.mdb is missing or empty')
    if (commits >= least || this.#restored) return
    throw new Error(
      `elections.mdb is older than the data that this directory has had. ${staleDataAdvice(this.#directory)}`,
    )
  }

  /** Returns the record as found, or `meta` for new data. Throws if the data was moved, or is being moved. */
  #completed(meta: Meta, { restored, movingTo, movingHere = false }: LmdbStorageOptions): Meta {
    if (movingHere && this.#found && !this.#found.isPartial)
      throw new Error('it already contains data. Choose a new directory')
    if (movingHere) return { ...meta, ...this.#found, isPartial: true }
    if (!this.#found) return meta
    const { movedTo, isPartial, ...found } = this.#found
    if (isPartial) throw new Error(partlyMoved)
    // A restore declares that no newer data exists, so the data may be served again.
    if (movedTo === undefined || restored === 'yes') return found
    if (movedTo !== movingTo) throw new Error(movedAway(movedTo))
    return this.#found
  }

  get #isCopy(): boolean {
    return isCopy(this.#meta.place, fileIdentity(this.#data.file))
  }

  /**
   * Returns whether the data has groups although the lock file does not record how many commits it has had. The lock
   * file is written before the first group.
   */
  get #isAgeless(): boolean {
    return !this.#lock.commits && this.#count() > 0
  }

  #refusedAgeless(): Error {
    const what = 'its lock file is missing, empty, or damaged, so the data may be old or in use'
    return new Error(`${what}. ${staleDataAdvice(this.#directory)}`)
  }

  #refusedCopy(): Error {
    const what = this.#meta.place === backup ? 'it is a backup' : 'it is a copy, or was restored'
    return new Error(`${what}. ${staleDataAdvice(this.#directory)}`)
  }

  async load(): Promise<Loaded> {
    return { head: headOf(this.#meta), pages: this.#pages() }
  }

  /** Throws if anything differs from what was written, because the terms of a missing group would be granted again. */
  async *#pages(): AsyncGenerator<readonly LoadedGroup[]> {
    const timeSlice = new TimeSlice()
    let left = this.#count()
    let newest = 0
    let before: string | undefined
    for (const { key, value } of this.#metas.getRange()) {
      newest = Math.max(newest, this.#decoded(key, value).commit)
    }
    for (;;) {
      const page: LoadedGroup[] = []
      const from = before === undefined ? {} : { start: before, exclusiveStart: true }
      for (const { key, value } of this.#groups.getRange({ ...from, limit: pageGroups })) {
        const { commit, seq, value: record } = this.#decoded(key, value)
        newest = Math.max(newest, commit)
        if (key !== before) left -= 1
        before = key
        page.push({ id: key, record: record as GroupRecord, seq })
      }
      // A negative number means that the order of the keys is damaged, and the loop might never end.
      if (page.length === 0 || left < 0) break
      yield page
      if (timeSlice.isOver) await timeSlice.pause()
    }
    if (left !== 0) throw this.#damaged('groups are missing')
    // Every commit stores its number in the records that it writes. LMDB has two pointers, for odd and even commits,
    // and uses the one with the higher number. If that pointer is wrong, everything committed since is lost.
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
    return this.unusable(new DamagedDataError(what))
  }

  /** Returns the error for data that cannot be served, with the reason. */
  unusable(cause: unknown): Error {
    return unusable(this.#directory, cause)
  }

  /** Starts the thread for {@link prove} ahead of time. */
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
    // Frees pages held by a backup that was killed. This accesses a mapped file, which would block the process if the
    // disk did not answer. The proof has just shown that it does.
    if (this.#proofs % proofsPerLook === 0 && !this.#broken) this.#root.readerCheck()
  }

  async head(): Promise<StorageHead> {
    return headOf(this.#meta)
  }

  /** The head in memory equals the one on disk, because nobody else writes while this process has the lock. */
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

  /** Marks the data as moved. After this resolves, nobody can open it, except to move it to that target. */
  async retire(movedTo: string): Promise<void> {
    await this.#writeMeta({ ...this.#meta, movedTo })
  }

  /** Writes groups that are being moved here, each with its own seq. */
  async fill(groups: readonly LoadedGroup[]): Promise<void> {
    const puts = groups.map(({ id, record, seq }) => ({ to: this.#groups, key: id, value: record, seq }))
    await this.#commit(this.#meta, [...puts, { to: this.#metas, key: 'meta', value: this.#meta }])
  }

  /** Completes a move into this storage. The data now has this head. */
  async finish(head: StorageHead): Promise<void> {
    const { term, seq, batch, clusterId, restores, secret, heldMs } = head
    const { place } = this.#meta
    await this.#writeMeta({ ...newMeta(clusterId, place), term, seq, batch, restores, secret, heldMs })
  }

  /** Also writes the head, so that the check needs as much space as the smallest append. */
  async check(): Promise<void> {
    const check = { to: this.#metas, key: 'check', value: {} }
    await this.#commit(this.#meta, [check, { to: this.#metas, key: 'meta', value: this.#meta }])
  }

  /** Resolves once the records would survive a power cut. `meta` is the first record from then on. */
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
      // Data written to a file that the next service would not find is not durable.
      await this.#lock.requirePlace([this.#data])
    } catch (cause) {
      // The lmdb package also rejects this promise. Left unhandled, the rejection would crash the process.
      const { commitError } = cause as { commitError?: Promise<never> }
      const reason = await commitError?.catch((error: unknown) => error)
      throw this.#failed(reason ?? cause)
    }
  }

  #failed(cause: unknown): ServiceError {
    try {
      this.#root.resetReadTxn()
      this.#metas.get('meta')
      return new ServiceError('BACKEND_UNAVAILABLE', 'The data directory cannot be written to.', { cause })
    } catch {
      const message = 'The data directory failed in the middle of a commit. Restart the service.'
      this.#broken = new ServiceError('BACKEND_UNAVAILABLE', message, { cause })
      return this.#broken
    }
  }

  /** The descriptor of a closed file may belong to another file by now, so nothing is written after closing. */
  async #whileOpen(work: () => Promise<void>): Promise<void> {
    if (this.#isClosed) throw new ServiceError('BACKEND_UNAVAILABLE', 'The data directory is closed.')
    const done = work().finally(() => this.#inFlight.delete(done))
    this.#inFlight.add(done)
    await done
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.allSettled(this.#inFlight)
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
