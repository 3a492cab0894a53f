import { existsSync, mkdirSync, statSync, truncateSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { open, type Database, type RootDatabase } from 'lmdb'
import { ServiceError } from '../errors.ts'
import { checkHeader, prepareLockFile, remedy, sync } from './data-file.ts'
import { DirectoryLock } from './directory-lock.ts'
import { decodeRecord, encodeRecord, type Decoded, type Stored } from './records.ts'

interface Meta {
  readonly format: 1
  readonly clusterId: string
  /** How often a backup was put back. Each time terms are skipped, in every group. */
  readonly restores: number
}

/** What LMDB tells of itself, as far as it is used here. */
interface Stats {
  readonly pageSize: number
  readonly lastPageNumber: number
  readonly entryCount: number
  readonly lastTxnId: number
}

interface Write {
  readonly to: Database<string, string>
  readonly key: string
  readonly value: object
  resolve(): void
  reject(error: Error): void
}

/** What {@link Disk.open} takes. */
export interface DiskOptions {
  readonly directory: string
  newId(): string
  /** The data come from a backup: that they are older than they were is meant. */
  readonly restored: boolean
}

/**
 * The data directory: LMDB, held by one process at a time.
 *
 * LMDB writes the pages of a commit beside those in use, syncs them, and only then writes and syncs the one page that
 * points to them. Its default in this package, to sync later while the next commit is under way, is turned off:
 *
 * - a commit that was answered is on disk, and a torn or lost tail leaves the commit before;
 * - where writing or syncing its pages fails, nothing points to them, and the next commit writes all its pages anew.
 *   So a failed sync, after which Linux takes lost pages for clean, harms nothing that was ever answered. A full disk
 *   is such a case: it is as if the commit had not been asked for, and it can be tried again;
 * - where writing the pointer fails, nobody knows which commit the disk has. LMDB refuses all work from then on, and so
 *   does this class until the process is started anew: {@link open} syncs the file first, so that what is read is what
 *   is there.
 *
 * One commit at a time is handed to LMDB, because it never answers those that wait behind one after which it refuses
 * all work. Writes that come meanwhile go into the next commit together.
 */
export class Disk {
  readonly #directory: string
  readonly #root: RootDatabase
  readonly #metas: Database<string, string>
  readonly #groups: Database<string, string>
  readonly #lock: DirectoryLock
  readonly #isNew: boolean
  /** The data were put back from a backup. */
  readonly #restored: boolean
  #meta: Meta
  #lastCommit: number
  #queue: Write[] = []
  #draining: Promise<void> | undefined
  #broken: ServiceError | undefined

  private constructor(lock: DirectoryLock, { directory, newId, restored }: DiskOptions) {
    const path = join(directory, 'elections.mdb')
    this.#directory = directory
    this.#lock = lock
    this.#restored = restored
    prepareLockFile(`${path}-lock`)
    checkHeader(path, restored && lock.commits !== undefined ? 1 : lock.commits)
    // Batches are made here: of those that the package makes by itself it leaves a promise that nobody hears reject.
    this.#root = open({ path, maxDbs: 4, encoding: 'string', overlappingSync: false, eventTurnBatching: false })
    try {
      // Where pages are missing at the end, reading them is an error then, and not a signal that ends the process.
      const { pageSize, lastPageNumber } = this.#root.getStats() as Stats
      const bytes = pageSize * (lastPageNumber + 1)
      if (statSync(path).size < bytes) truncateSync(path, bytes)
      this.#metas = this.#root.openDB({ name: 'meta', encoding: 'string' })
      this.#groups = this.#root.openDB({ name: 'groups', encoding: 'string' })
      this.#lastCommit = this.#commits()
      const meta = this.#readMeta()
      this.#isNew = meta === undefined
      this.#meta = meta ?? { format: 1, clusterId: newId(), restores: 0 }
    } catch (error) {
      void this.#root.close()
      throw error
    }
  }

  get clusterId(): string {
    return this.#meta.clusterId
  }

  get restores(): number {
    return this.#meta.restores
  }

  static async open(options: DiskOptions): Promise<Disk> {
    const { directory } = options
    makeDirectory(resolve(directory))
    const lock = await DirectoryLock.take(directory)
    try {
      const disk = new Disk(lock, options)
      await disk.#begin()
      return disk
    } catch (error) {
      lock.release()
      const reason = error instanceof Error ? error.message : String(error)
      throw new Error(`The data directory ${directory} cannot be used: ${reason}`, { cause: error })
    }
  }

  async #begin(): Promise<void> {
    if (this.#isNew) await this.#durable(this.#metas, 'meta', this.#meta)
    if (this.#lock.commits !== undefined) return
    this.#lock.note(this.#lastCommit)
    this.#lock.sync()
    // A new file is lost with its directory's entry.
    for (const path of [this.#directory, dirname(this.#directory)]) sync(path, 'r')
  }

  #readMeta(): Meta | undefined {
    const record = this.#metas.get('meta')
    if (record === undefined && this.#count() === 0) return undefined
    const meta = record === undefined ? undefined : (decodeRecord('meta', record)?.value as Meta | undefined)
    if (!meta) throw new Error(`its first record is damaged. ${remedy}`)
    if (meta.format === 1) return meta
    throw new Error(`it has format ${String(meta.format)}; this version reads format 1.`)
  }

  /** Throws where anything is not as it was written: the terms of a group that is missing would be granted again. */
  *all(): Iterable<{ id: string; stored: Stored }> {
    let left = this.#count()
    let newest = 0
    let before = ''
    for (const { key, value } of this.#metas.getRange()) {
      newest = Math.max(newest, this.#decoded(key, value).commit)
    }
    for (const { key, value } of this.#groups.getRange({ snapshot: false })) {
      const decoded = this.#decoded(key, value)
      newest = Math.max(newest, decoded.commit)
      if (key !== before) left -= 1
      before = key
      yield { id: key, stored: decoded.value as Stored }
    }
    if (left !== 0) throw this.#damaged('groups are missing')
    // Every commit leaves its number in what it wrote. LMDB has two pointers, of the odd and the even ones, and takes the
    // one with the higher number. If that is wrong, what came since is lost.
    const late = this.#commits() - newest
    if (!this.#restored && (late < 0 || late > 1))
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
    return new Error(`The data directory ${this.#directory} cannot be used: ${what}. ${remedy}`)
  }

  *idsAfter(id: string | undefined): Iterable<string> {
    if (this.#broken) throw this.#broken
    const range = this.#groups.getKeys(id === undefined ? {} : { start: id, exclusiveStart: true })
    for (const key of range) yield key
  }

  /** Records from before are known by the number that stands in them. */
  async noteRestore(): Promise<void> {
    this.#meta = { ...this.#meta, restores: this.#meta.restores + 1 }
    await this.#durable(this.#metas, 'meta', this.#meta)
  }

  /** Rejects while nothing can be made durable. */
  async check(): Promise<void> {
    await this.#durable(this.#metas, 'check', {})
  }

  /** Resolves once it would survive a power cut. */
  async write(id: string, stored: Stored): Promise<void> {
    const { restores } = this.#meta
    await this.#durable(this.#groups, id, restores > 0 ? { ...stored, restores } : stored)
  }

  #durable(to: Database<string, string>, key: string, value: object): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ to, key, value, resolve, reject })
      this.#draining ??= this.#drain()
    })
  }

  async #drain(): Promise<void> {
    // Those that come in the same turn go together.
    await new Promise((resolve) => setImmediate(resolve))
    while (this.#queue.length > 0) {
      const batch = this.#queue
      this.#queue = []
      const failure = await this.#commit(batch)
      for (const { resolve, reject } of batch) {
        if (failure) reject(failure)
        else resolve()
      }
    }
    this.#draining = undefined
  }

  async #commit(batch: readonly Write[]): Promise<ServiceError | undefined> {
    if (this.#broken) return this.#broken
    try {
      const commit = this.#lastCommit + 1
      await this.#root.batch(() => {
        for (const { to, key, value } of batch) void to.put(key, encodeRecord(key, value, commit))
      })
      this.#lastCommit = commit
      this.#lock.note(commit)
      return undefined
    } catch (cause) {
      // The package rejects this promise as well; unheard, that would end the process.
      const { commitError } = cause as { commitError?: Promise<never> }
      const reason = await commitError?.catch((error: unknown) => error)
      return this.#failed(reason ?? cause)
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

  async close(): Promise<void> {
    await this.#draining
    await this.#root.close()
    this.#lock.sync()
    this.#lock.release()
  }
}

/** Node's own way to make parents too never ends where a parent is there and takes no children, as in /proc. */
function makeDirectory(directory: string): void {
  if (existsSync(directory)) return
  makeDirectory(dirname(directory))
  try {
    mkdirSync(directory, { mode: 0o700 })
  } catch (error) {
    // Somebody else may have made it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
