import { basename, dirname, join, resolve } from 'node:path'
import { encodeName } from '../encode-name.ts'
import { decodeLease, decodeMark, encodeLease, encodeMark, type StoredLease, type TermMark } from './file-format.ts'
import { readText, replaceFile, syncDirectory } from './filesystem.ts'

/** What the files of an election say at one moment. */
export interface LeaseState {
  readonly lease: StoredLease | undefined
  readonly mark: TermMark | undefined
}

// Lower case only: some file systems do not tell A from a.
const plainName = /^[a-z0-9][a-z0-9._-]{0,99}$/

/**
 * The files of the elections: `<name>.json` with the record, `<name>.json.term` with the highest term, and
 * `<name>.json.lock`, which is only ever locked.
 */
export class LeaseFiles {
  readonly directory: string
  readonly #path: string | undefined

  constructor(location: { readonly directory?: string; readonly path?: string }) {
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
    const lease = this.loadLease(election)
    const text = readText(path)
    return { lease, mark: text === undefined ? undefined : decodeMark(path, election, text) }
  }

  /** The record's file is replaced in one step, so it can be read at any time. */
  loadLease(election: string): StoredLease | undefined {
    const path = this.#leasePath(election)
    const text = readText(path)
    return text === undefined ? undefined : decodeLease(path, election, text)
  }

  /** Only under the lock. It is durable once a lease was saved durably after it. */
  async saveMark(mark: TermMark): Promise<void> {
    await replaceFile(this.#markPath(mark.election), encodeMark(mark))
  }

  /** Only under the lock. If `durable`, everything saved so far would survive a power cut; else this may be undone. */
  async saveLease(lease: StoredLease, durable: boolean): Promise<void> {
    await replaceFile(this.#leasePath(lease.record.election), encodeLease(lease))
    if (durable) await syncDirectory(this.directory)
  }

  #leasePath(election: string): string {
    return this.#path ?? join(this.directory, `${encodeName(election, plainName)}.json`)
  }

  #markPath(election: string): string {
    return `${this.#leasePath(election)}.term`
  }
}
