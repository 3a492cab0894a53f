import { readdir, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { TenureError } from '../../common/errors.ts'
import { encodeName } from '../../store-kit/encode-name.ts'
import { accessFor, type Access } from './access.ts'
import {
  decodeLease,
  decodeTermRecord,
  encodeLease,
  encodeTermRecord,
  type StoredLease,
  type FileTermRecord,
} from './file-format.ts'
import { readText, replaceFile, syncDirectory } from './filesystem.ts'

/** The content of an election's files at one moment. */
export interface LeaseState {
  readonly lease: StoredLease | undefined
  readonly termRecord: FileTermRecord | undefined
}

// Lower case only, because some file systems do not distinguish A from a.
const plainName = /^[a-z0-9][a-z0-9._-]{0,99}$/
const ending = '.json'

/** Where the files are, and which users may access them. */
interface LeaseLocation {
  readonly directory?: string | undefined
  readonly path?: string | undefined
  readonly shareWithGroup?: boolean | undefined
}

/**
 * The files of the elections: `<name>.json` with the record, `<name>.json.term` with the highest term, and
 * `<name>.json.lock`, which is used only for locking.
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

  /** Call only while holding the lock. Otherwise the two files may come from different writes. */
  load(election: string): LeaseState {
    const path = this.#termRecordPath(election)
    const lease = this.loadLease(election, true)
    const text = readText(path, this.access)
    return { lease, termRecord: text === undefined ? undefined : decodeTermRecord(path, election, text) }
  }

  /**
   * Reads the record's file. It is replaced atomically, so no lock is needed. A candidate checks the file's owner. A
   * process that only reads may run as another user, for example a monitoring agent.
   */
  loadLease(election: string, takesPart: boolean): StoredLease | undefined {
    const path = this.#leasePath(election)
    const text = readText(path, takesPart ? this.access : undefined)
    return text === undefined ? undefined : decodeLease(path, election, text)
  }

  /** The sorted names of all files that may contain a record. */
  async names(): Promise<string[]> {
    if (this.#path !== undefined) return [basename(this.#path)]
    const names = await readdir(this.directory)
    return names.filter((name) => name.endsWith(ending)).toSorted()
  }

  /** The record in one of these files. Undefined if the file no longer exists. */
  loadNamed(name: string): StoredLease | undefined {
    const path = join(this.directory, name)
    const text = readText(path, undefined)
    const lease = text === undefined ? undefined : decodeLease(path, undefined, text)
    if (!lease || this.fileName(lease.record.election) === name) return lease
    throw new TenureError(
      'RECORD_INVALID',
      `Lease file "${path}" contains the record of "${lease.record.election}", which belongs in another file.`,
    )
  }

  /**
   * Call only while holding the lock. If `durable`, everything saved so far survives a power failure. Otherwise a power
   * failure may undo this write.
   */
  async saveTermRecord(termRecord: FileTermRecord, durable: boolean): Promise<void> {
    await this.#replace(this.#termRecordPath(termRecord.election), encodeTermRecord(termRecord), durable)
  }

  /** Saves the record, under the same conditions as {@link saveTermRecord}. */
  async saveLease(lease: StoredLease, durable: boolean): Promise<void> {
    await this.#replace(this.#leasePath(lease.record.election), encodeLease(lease), durable)
  }

  /** Call only while holding the lock. Removes the term first, so that a call that fails in between can be repeated. */
  async remove(election: string, withTerm: boolean): Promise<void> {
    const paths = [...(withTerm ? [this.#termRecordPath(election)] : []), this.#leasePath(election)]
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

  #termRecordPath(election: string): string {
    return `${this.#leasePath(election)}.term`
  }
}
