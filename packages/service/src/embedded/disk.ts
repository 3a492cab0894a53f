import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { open, type Database, type RootDatabase } from 'lmdb'
import { ServiceError } from '../errors.ts'

/** What is kept of a group. Short names: there may be a million of them. */
export interface Stored {
  /** The highest term that was ever granted. */
  readonly term: number
  /** The term of the lease below, where a higher one was tried since. */
  readonly leaseTerm?: number
  readonly node?: string
  readonly attempt?: string
  /** The longest duration that was promised in this term. */
  readonly ttl?: number
  readonly at?: number
  readonly meta?: Readonly<Record<string, unknown>>
  readonly carry?: string
  /** Nobody leads in this term any more. */
  readonly ended?: boolean
  /** Although the term was ended by force, nobody may lead for so long. */
  readonly heldMs?: number
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly allowed?: readonly string[] | undefined
  /** The group was deleted; only its term lives on. */
  readonly deleted?: boolean | undefined
}

interface Meta {
  readonly format: 1
  readonly clusterId: string
  /** No term at or below it is granted any more. */
  readonly termFloor: number
}

const skippedTerms = 1_000_000
// Named by a variable because the package has no types.
const lockPackage: string = 'fs-native-extensions'

/** The data directory: LMDB, held by one process at a time. */
export class Disk {
  readonly #root: RootDatabase
  readonly #metas: Database<Meta, string>
  #meta: Meta
  readonly #groups: Database<Stored, string>
  readonly #lock: number

  private constructor(root: RootDatabase, metas: Database<Meta, string>, meta: Meta, lock: number) {
    this.#root = root
    this.#metas = metas
    this.#meta = meta
    this.#lock = lock
    this.#groups = root.openDB<Stored, string>({ name: 'groups', encoding: 'json' })
  }

  get clusterId(): string {
    return this.#meta.clusterId
  }

  get termFloor(): number {
    return this.#meta.termFloor
  }

  static async open(directory: string, newId: () => string): Promise<Disk> {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const lock = openSync(join(directory, 'lock'), 'a', 0o600)
    const { tryLock } = (await import(lockPackage)) as { tryLock(fd: number): boolean }
    if (!tryLock(lock)) {
      closeSync(lock)
      throw new Error(`The data directory ${directory} is in use by another process. One process serves it at a time.`)
    }
    const root = open({ path: join(directory, 'elections.mdb'), maxDbs: 4, encoding: 'json', noMemInit: false })
    const metas = root.openDB<Meta, string>({ name: 'meta', encoding: 'json' })
    let meta = metas.get('meta')
    if (meta === undefined) {
      meta = { format: 1, clusterId: newId(), termFloor: 0 }
      await metas.put('meta', meta)
      await root.flushed
    }
    if (meta.format !== 1) {
      throw new Error(`The data in ${directory} has format ${String(meta.format)}; this version reads format 1.`)
    }
    return new Disk(root, metas, meta, lock)
  }

  *all(): Iterable<{ id: string; stored: Stored }> {
    for (const { key, value } of this.#groups.getRange({ snapshot: false })) yield { id: key, stored: value }
  }

  *idsAfter(id: string | undefined): Iterable<string> {
    const range = this.#groups.getKeys(id === undefined ? {} : { start: id, exclusiveStart: true })
    for (const key of range) yield key
  }

  /** After a restored backup nobody knows which terms have been granted since, so a great many are skipped. */
  async raiseTermFloor(): Promise<void> {
    let highest = this.#meta.termFloor
    for (const { stored } of this.all()) highest = Math.max(highest, stored.term)
    this.#meta = { ...this.#meta, termFloor: highest + skippedTerms }
    await this.#metas.put('meta', this.#meta)
    await this.#root.flushed
  }

  /** Rejects while nothing can be made durable. */
  async check(): Promise<void> {
    await this.#durable(this.#metas.put('check', this.#meta))
  }

  /** Resolves once it would survive a power cut. Writes that come together are committed together. */
  async write(id: string, stored: Stored): Promise<void> {
    await this.#durable(this.#groups.put(id, stored))
  }

  async #durable(put: Promise<boolean>): Promise<void> {
    try {
      await put
      await this.#root.flushed
    } catch (cause) {
      throw new ServiceError('BACKEND_UNAVAILABLE', 'The data directory cannot be written.', { cause })
    }
  }

  async close(): Promise<void> {
    await this.#root.close()
    closeSync(this.#lock)
  }
}
