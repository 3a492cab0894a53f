import { readdir, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { TenureError } from '../../errors.ts'
import { encodeName } from '../encode-name.ts'
import { accessFor, type Access } from './access.ts'
import { decodeLease, decodeMark, encodeLease, encodeMark, type StoredLease, type TermMark } from './file-format.ts'
import { readText, replaceFile, syncDirectory } from './filesystem.ts'

/** What the files of an election say at one moment. */
export interface LeaseState {
  readonly lease: StoredLease | undefined
  readonly mark: TermMark | undefined
}

// Lower case only: some file systems do not tell A from a.
const plainName = /^[a-z0-9][a-z0-9._-]{0,99}$/
const ending = '.json'

/** Where the files are, and who may use them. */
interface LeaseLocation {
  readonly directory?: string | undefined
  readonly path?: string | undefined
  readonly shareWithGroup?: boolean | undefined
}

/**
 * The files of the elections: `<name>.json` with the record, `<name>.json.term` with the highest term, and
 * `<name>.json.lock`, which is only ever locked.
 */
export class LeaseFiles {
  readonly directory: string
  readonly access: Access
  readonly #path: string | undefined

  constructor(location: LeaseLocation) {
    this.access = accessFor(location.shareWithGroup ?? false)
    this.#path = location.path === undefined ? undefined : resolve(location.path)
    this.directory = this.#path === undefined ? resolve(location.directory ?? '.') : dirname(this.#path)
  }

  /** The name of the file with the record. */
  fileName(election: string): string {
    return basename(this.#leasePath(election))
  }

  lockPath(election: string): string {
    return `${this.#leasePath(election)}.lock`
  }

  /** Only under the lock: elsewhere the two files may be of different moments. */
  load(election: string): LeaseState {
    const path = this.#markPath(election)
    const lease = this.loadLease(election, true)
    const text = readText(path, this.access)
    return { lease, mark: text === undefined ? undefined : decodeMark(path, election, text) }
  }

  /**
   * The record's file is replaced in one step, so it can be read at any time. A candidate checks its owner; a
   * process that only looks may belong to another user, such as one that watches the machine.
   */
  loadLease(election: string, takesPart: boolean): StoredLease | undefined {
    const path = this.#leasePath(election)
    const text = readText(path, takesPart ? this.access : undefined)
    return text === undefined ? undefined : decodeLease(path, election, text)
  }

  /** The names of all files that may have a record, in order. */
  async names(): Promise<string[]> {
    if (this.#path !== undefined) return [basename(this.#path)]
    const names = await readdir(this.directory)
    return names.filter((name) => name.endsWith(ending)).toSorted()
  }

  /** The record in one of these files; undefined if it is gone by now. */
  loadNamed(name: string): StoredLease | undefined {
    const path = join(this.directory, name)
    const text = readText(path, undefined)
    const lease = text === undefined ? undefined : decodeLease(path, undefined, text)
    if (!lease || this.fileName(lease.record.election) === name) return lease
    throw new TenureError('RECORD_INVALID', `Lease file "${path}" is not the place of "${lease.record.election}".`)
  }

  /** Only under the lock. If `durable`, everything saved so far survives a power cut; otherwise this may be undone. */
  async saveMark(mark: TermMark, durable: boolean): Promise<void> {
    await this.#replace(this.#markPath(mark.election), encodeMark(mark), durable)
  }

  /** Likewise. */
  async saveLease(lease: StoredLease, durable: boolean): Promise<void> {
    await this.#replace(this.#leasePath(lease.record.election), encodeLease(lease), durable)
  }

  /** Only under the lock. The term goes first: a call that breaks off in between can be repeated. */
  async remove(election: string, withTerm: boolean): Promise<void> {
    const paths = [...(withTerm ? [this.#markPath(election)] : []), this.#leasePath(election)]
    for (const path of paths) {
      await rm(path, { force: true })
      await syncDirectory(this.directory)
    }
  }

  async #replace(path: string, text: string, durable: boolean): Promise<void> {
    await replaceFile(path, text, this.access)
    if (durable) await syncDirectory(this.directory)
  }

  #leasePath(election: string): string {
    return this.#path ?? join(this.directory, `${encodeName(election, plainName)}${ending}`)
  }

  #markPath(election: string): string {
    return `${this.#leasePath(election)}.term`
  }
}
