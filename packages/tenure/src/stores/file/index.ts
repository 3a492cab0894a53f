/**
 * Keeps elections in files of one machine.
 *
 * @module
 */
import { ownCheckpointLimitBytes } from '../../engine/check-values.ts'
import { within } from '@tenure/internal/bound'
import { createHash } from 'node:crypto'
import { basename, join } from 'node:path'
import { systemClock, type Clock } from '../../common/clock.ts'
import { invalidOption, TenureError } from '../../common/errors.ts'
import type {
  AcquireClaim,
  CallOptions,
  ForgetClaim,
  Forgotten,
  HeldClaim,
  LeaseRecord,
  LeaseStore,
  ListPage,
  Outcome,
  Refused,
} from '../../engine/lease-store.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { ownClockDomain, remainingMs, sameKernel, type ClockReading } from './clock-domain.ts'
import { DirectoryWatch } from './directory-watch.ts'
import type { StoredLease } from './file-format.ts'
import { asStoreError, prepareDirectory } from './filesystem.ts'
import { preloadLock, withKernelLock } from './kernel-lock.ts'
import { LeaseFiles, type LeaseState } from './lease-files.ts'
import { LivenessSockets, type OpenLivenessSocket } from './own-liveness-sockets.ts'
import { LeaseFileWatch } from './lease-file-watch.ts'
import { reach, removeSocket } from './liveness-socket.ts'
import { buildStore, type StoreBackend } from '../../store-kit/locking-store.ts'
import { keysOn, listPage, type Page } from '../../store-kit/list.ts'
import { findOnLocalFilesystem } from '../../store-kit/local-filesystem.ts'
import { granted, type Current, type RecordDraft, type Verdict } from '../../store-kit/rules.ts'

export type { LeaseStore } from '../../engine/lease-store.ts'
export type { OpenLivenessSocket } from './own-liveness-sockets.ts'
export type { LivenessSocket } from './liveness-socket.ts'

/** Options of {@link fileStore}. Exactly one of `directory` and `path` must be given. */
export interface FileStoreOptions {
  /** Directory for the files of any number of elections. Created on the first call that asks for a lease. */
  readonly directory?: string | undefined
  /** The file of a single election. Two more files, with the suffixes `.lock` and `.term`, are kept next to it. */
  readonly path?: string | undefined
  readonly clock?: Clock | undefined
  /** Accepts a directory on a network or FUSE file system, where a lock may be local to one host. Default: false. */
  readonly allowNetworkFilesystem?: boolean | undefined
  /**
   * Lets all users of a group take part: a directory that the store creates gets mode 2770, and files get 0660. Each of
   * these users can elect itself, end a leadership, or block everyone else. Default: false, only this user takes part.
   */
  readonly shareWithGroup?: boolean | undefined
  /**
   * Whether another candidate may take over as soon as this process is dead. Default: true. Set it to false for work
   * that starts subprocesses: they may outlive this process, so other candidates should wait for the lease to expire.
   */
  readonly fastTakeover?: boolean | undefined
  /**
   * Lets another process serve the liveness socket, which must stay open as long as the work may run. `path` is a
   * suitable path in the directory of the leases, where the next leader removes a leftover socket. It is undefined if
   * no socket can be created there. The function is called while the store holds the election's lock, so it should
   * return quickly. If it returns undefined, other candidates wait for the lease to expire.
   */
  readonly signOfLife?: OpenLivenessSocket | undefined
}

const names: OptionNames<FileStoreOptions> = {
  directory: true,
  path: true,
  clock: true,
  allowNetworkFilesystem: true,
  shareWithGroup: true,
  fastTakeover: true,
  signOfLife: true,
}

/**
 * Keeps leases in files of a local directory, for processes on one machine. Needs the package `fs-native-extensions`.
 *
 * @example
 * const store = fileStore({ directory: './leases' })
 * await lead({ store, election: 'nightly-report' }, async ({ signal }) => report({ signal }))
 */
export function fileStore(options: FileStoreOptions): LeaseStore {
  checkOptions('fileStore()', options, names)
  checkValues(options)
  const { clock = systemClock } = options
  return buildStore(new FileBackend(options, clock), clock)
}

/**
 * Does not use the compare-and-swap store: a claim is decided while holding the election's kernel lock, based on
 * exactly the state that the write replaces, so there is nothing to compare.
 */
class FileBackend implements StoreBackend {
  readonly expiry = 'own-clock'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly #clock: Clock
  readonly #files: LeaseFiles
  readonly #signs: LivenessSockets
  readonly #changes: DirectoryWatch
  readonly #watches = new Set<LeaseFileWatch>()
  readonly #allowNetworkFilesystem: boolean
  #prepared: Promise<void> | undefined
  /** Whether a read-only call has seen the directory. */
  #isThere = false
  #closed = false

  constructor(options: FileStoreOptions, clock: Clock) {
    this.#clock = clock
    this.#files = new LeaseFiles(options)
    const server = options.fastTakeover === false ? 'nobody' : (options.signOfLife ?? 'self')
    this.#signs = new LivenessSockets(this.#files.directory, server, this.#files.access.fileMode)
    this.#changes = new DirectoryWatch(this.#files.directory)
    this.#allowNetworkFilesystem = options.allowNetworkFilesystem ?? false
  }

  async find(election: string, { signal }: CallOptions): Promise<Current> {
    const found = await this.#look(signal, async () => {
      const lease = this.#loadLease(election)
      const current = await this.#currentOf({ lease, termRecord: undefined })
      return { ...current, holderGone: lease && (await this.#isDead(lease)) }
    })
    return found ?? { record: undefined, highestTerm: 0, remainingMs: undefined }
  }

  async list(page: Page, { signal }: CallOptions): Promise<ListPage> {
    const listed = await this.#look(signal, async () => {
      const { keys, next } = keysOn(page, await this.#files.names())
      return listPage(keys, next, (name) => this.#files.loadNamed(name)?.record)
    })
    return listed ?? { records: [] }
  }

  change(
    claim: AcquireClaim | HeldClaim,
    { signal }: CallOptions,
    judge: (current: Current) => Verdict,
  ): Promise<Outcome> {
    const verdictOn = async (state: LeaseState) => judge(await this.#currentFor(claim, state))
    return this.#call(signal, async () => {
      // Most acquire claims are refused, and reading the record is enough to refuse one, so standbys need no lock.
      const lease = isHeld(claim) ? undefined : this.#loadLease(claim.election)
      const verdict = lease && (await verdictOn({ lease, termRecord: undefined }))
      if (verdict && 'answer' in verdict && !verdict.answer.ok) return verdict.answer
      return this.#changeLocked(claim, signal, verdictOn)
    })
  }

  forget(
    { election, withTerm = false }: ForgetClaim,
    { signal }: CallOptions,
    judge: (current: Current) => Refused | undefined,
  ): Promise<Forgotten> {
    const { access } = this.#files
    const remove = async (): Promise<Forgotten> => {
      const state = this.#files.load(election)
      const { lease, termRecord } = state
      const refusal = judge({ ...(await this.#currentOf(state)), holderGone: lease && (await this.#isDead(lease)) })
      if (refusal) return refusal
      signal.throwIfAborted()
      await this.#signs.closeAllBut(undefined, election)
      await this.#files.remove(election, withTerm)
      if (termRecord?.socket) await removeSocket(join(this.#files.directory, basename(termRecord.socket)))
      return { ok: true }
    }
    const path = this.#files.lockPath(election)
    return this.#call(signal, () => withKernelLock(path, access, this.#clock, signal, remove))
  }

  watch(election: string, { signal }: CallOptions): AsyncIterable<LeaseRecord | undefined> {
    const end = (): void => watch.end()
    const watch = new LeaseFileWatch(
      {
        load: () => this.#look(signal, async () => this.#loadLease(election)),
        clock: this.#clock,
        reach: (lease) => this.#reach(lease),
        listen: async (listener) => {
          // The watch is opened outside the bounded call. Otherwise an abort at the last moment would lose the function
          // that closes it.
          const isThere = await this.#look(signal, async () => true)
          return isThere ? this.#listen(election, listener) : undefined
        },
      },
      () => {
        signal.removeEventListener('abort', end)
        this.#watches.delete(watch)
      },
    )
    this.#watches.add(watch)
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted || this.#closed) end()
    return watch
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const watch of this.#watches) watch.end()
    await this.#signs.close()
  }

  /** The locked read-modify-write that every change uses. */
  #changeLocked(
    claim: { readonly election: string; readonly leaseDurationMs: number },
    signal: AbortSignal,
    verdictOn: (state: LeaseState) => Promise<Verdict>,
  ): Promise<Outcome> {
    const { election } = claim
    return withKernelLock(this.#files.lockPath(election), this.#files.access, this.#clock, signal, async () => {
      const state = this.#files.load(election)
      await this.#signs.closeAllBut(state.lease?.record, election)
      const verdict = await verdictOn(state)
      if ('answer' in verdict) return verdict.answer
      signal.throwIfAborted()
      const record = await this.#write(state, verdict.write)
      await this.#signs.closeAllBut(record, election)
      return granted(record, claim)
    })
  }

  /**
   * A new term is made durable before the record that contains it becomes readable, so that after a power failure no
   * term that someone saw is granted again. The term file names the socket before the socket is opened, so that no
   * socket is left behind forever.
   */
  async #write({ lease, termRecord }: LeaseState, draft: RecordDraft): Promise<LeaseRecord> {
    const isGrant = draft.attempt !== lease?.record.attempt
    const record = { ...draft, ...inWholeMs(draft), version: nextVersion(draft, lease) }
    const { election, leaseDurationMs } = record
    const highestTerm = Math.max(record.term, termRecord?.highestTerm ?? 0)
    const socket = isGrant ? this.#signs.socketFor(record) : termRecord?.socket
    const clock = await this.#now()

    if (!record.released)
      await this.#files.saveTermRecord({ election, highestTerm, leaseDurationMs, socket, clock }, isGrant)
    const signOfLife = isGrant ? await this.#signs.open(record, socket) : lease.signOfLife
    // A power failure may undo a renewal or a release, which only makes others wait. It must not undo a grant or a
    // checkpoint.
    const durable = isGrant || record.checkpoint !== lease.record.checkpoint
    await this.#files.saveLease({ record, clock, signOfLife }, durable)

    if (isGrant && termRecord?.socket) await removeSocket(join(this.#files.directory, basename(termRecord.socket)))
    return record
  }

  /**
   * Checks whether the holder is dead, but only for a claim of another attempt. Other claims do not need the slow
   * check.
   */
  async #currentFor(claim: AcquireClaim | HeldClaim, state: LeaseState): Promise<Current> {
    const current = await this.#currentOf(state)
    const { lease } = state
    const isOther = !isHeld(claim) && lease && lease.record.attempt !== claim.attempt
    return isOther ? { ...current, holderGone: await this.#isDead(lease) } : current
  }

  async #currentOf({ lease, termRecord }: LeaseState): Promise<Current> {
    const now = await this.#now()
    return {
      record: lease?.record,
      highestTerm: Math.max(lease?.record.term ?? 0, termRecord?.highestTerm ?? 0),
      remainingMs: lease
        ? remainingMs(lease.clock, lease.record.leaseDurationMs, now)
        : termRecord && remainingMs(termRecord.clock, termRecord.leaseDurationMs, now),
      lastDurationMs: termRecord?.leaseDurationMs,
    }
  }

  #loadLease(election: string): StoredLease | undefined {
    return this.#files.loadLease(election, this.#prepared !== undefined)
  }

  #listen(election: string, listener: (error?: unknown) => void): () => void {
    return this.#changes.listen(this.#files.fileName(election), (error) =>
      listener(error && asStoreError(error, this.#files.directory, this.#files.access)),
    )
  }

  async #isDead(lease: StoredLease): Promise<boolean> {
    if (lease.record.released) return false
    const reached = await this.#reach(lease)
    if (typeof reached !== 'string') reached.destroy()
    return reached === 'dead'
  }

  async #reach({ clock, signOfLife }: StoredLease): ReturnType<typeof reach> {
    if (!signOfLife || !sameKernel(clock, await ownClockDomain())) return 'unknown'
    return reach(this.#files.directory, signOfLife)
  }

  /** Runs a call that changes something. Creates the directory if it is missing. */
  #call<T>(signal: AbortSignal, action: () => Promise<T>): Promise<T> {
    return this.#bounded(signal, async () => {
      await this.#prepare()
      signal.throwIfAborted()
      return action()
    })
  }

  /** Runs a read-only call. Returns undefined if the directory does not exist, and does not create it. */
  #look<T>(signal: AbortSignal, action: () => Promise<T>): Promise<T | undefined> {
    return this.#bounded(signal, async () => {
      if (this.#prepared) await this.#prepare()
      else this.#isThere ||= await findOnLocalFilesystem(this.#files.directory, this.#allowNetworkFilesystem)
      signal.throwIfAborted()
      return this.#prepared || this.#isThere ? action() : undefined
    })
  }

  /** Bounds a call by its signal. Work that has begun continues in the background and releases the lock by itself. */
  async #bounded<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    const { access, directory } = this.#files
    signal.throwIfAborted()
    if (this.#closed) throw new TenureError('STOPPED', `The file store in "${directory}" is closed.`)
    try {
      return await within(signal, undefined, run())
    } catch (error) {
      throw asStoreError(error, directory, access)
    }
  }

  async #prepare(): Promise<void> {
    try {
      if (!this.#prepared) preloadLock()
      await (this.#prepared ??= prepareDirectory(
        this.#files.directory,
        this.#allowNetworkFilesystem,
        this.#files.access,
      ))
    } catch (error) {
      this.#prepared = undefined
      throw error
    }
  }

  async #now(): Promise<ClockReading | undefined> {
    const domain = await ownClockDomain()
    return domain && { ...domain, ms: this.#clock.machineMs() }
  }
}

/**
 * Rounds to whole milliseconds, as the file format requires. The duration is rounded up, so that the lease is never
 * written shorter than its holder assumes.
 */
function inWholeMs({ leaseDurationMs, acquiredAt, renewedAt }: RecordDraft) {
  return {
    leaseDurationMs: Math.ceil(leaseDurationMs),
    acquiredAt: Math.trunc(acquiredAt),
    renewedAt: Math.trunc(renewedAt),
  }
}

/**
 * Builds a version from the term, a count within the grant, and a hash of the grant's attempt. The version stays unique
 * even if the count restarts after the record file was deleted, or the term restarts after it was forgotten.
 */
function nextVersion({ term, attempt }: RecordDraft, lease: StoredLease | undefined): string {
  const before = lease?.record.attempt === attempt ? Number(lease.record.version.split('.')[1]) : 0
  const unique = createHash('sha256').update(attempt).digest('hex').slice(0, 12)
  return `${term}.${before + 1}.${unique}`
}

function checkValues(options: FileStoreOptions): void {
  const { directory, path, clock, allowNetworkFilesystem, shareWithGroup, fastTakeover, signOfLife } = options
  if ((directory === undefined) === (path === undefined)) {
    const rule = 'exactly one of "directory" (many elections) and "path" (one election) must be given'
    throw invalidOption('directory', directory, rule)
  }
  for (const [name, value] of Object.entries({ directory, path })) {
    const valid = value === undefined || (typeof value === 'string' && value !== '' && !value.includes('\0'))
    if (!valid) throw invalidOption(name, value, 'it must be a path')
  }
  for (const [name, value] of Object.entries({ allowNetworkFilesystem, shareWithGroup, fastTakeover })) {
    if (value !== undefined && typeof value !== 'boolean') throw invalidOption(name, value, 'it must be true or false')
  }
  if (clock !== undefined && typeof clock?.machineMs !== 'function') {
    throw invalidOption('clock', clock, 'it must be a Clock')
  }
  if (signOfLife === undefined) return
  if (typeof signOfLife !== 'function') throw invalidOption('signOfLife', signOfLife, 'it must be a function')
  if (fastTakeover === false) throw invalidOption('fastTakeover', false, 'it must not be false if "signOfLife" is set')
}

/**
 * Distinguishes claims by a field that only a held claim has, because a caller may pass more fields than an acquire
 * claim needs.
 */
function isHeld(claim: AcquireClaim | HeldClaim): claim is HeldClaim {
  return 'term' in claim
}
