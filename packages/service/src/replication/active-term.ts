import { pause } from '@tenure/internal/pause'
import type { Clock, Leadership } from 'tenure'
import { nextTurn } from '../common/clock.ts'
import { ServiceError } from '../common/errors.ts'
import type { Authority, LoadedAtHead } from '../groups/group-driver.ts'
import { LocalGroups, type LocalGroupsOptions } from '../groups/local-groups.ts'
import { LoadedGroups } from '../groups/load-groups.ts'
import { ServingClock } from '../groups/serving-clock.ts'
import type { HeadChanges } from '../storage/appender.ts'
import { Journal } from '../storage/journal.ts'
import { isSameHead, type Loaded, type LoadedGroup, type Storage, type StorageHead } from '../storage/storage.ts'
import { TermStorage } from './term-storage.ts'
import type { ConfirmedHead } from './data-loss.ts'
import type { WarmCopy } from './warm-copy.ts'

/** Why a replica is no longer active. */
export type ActiveTermEnd = 'lost' | 'fenced' | 'superseded' | 'failed'

/** The options of {@link LocalGroups} that an active term does not set itself. */
export type GroupsOptions = Omit<
  LocalGroupsOptions,
  'storage' | 'authority' | 'clock' | 'storageClock' | 'graceMs' | 'onFenced'
>

/** The options of {@link ActiveTerm}. */
export interface ActiveTermOptions {
  readonly storage: Storage
  /** The copy that this replica kept as a follower. Undefined if it keeps none. */
  readonly warmCopy?: WarmCopy | undefined
  readonly confirmed: ConfirmedHead
  readonly clock: Clock
  readonly groups: GroupsOptions
  /** How long to wait before a swap of the head whose outcome is unknown is tried again. */
  readonly retryMs: number
  /** The duration of the replica's own lease. */
  readonly leaseMs: number
  /** Called once the head is swapped. */
  onSwap(changes: HeadChanges): void
  /** Called before the first request can be answered. */
  onOpen(groups: LocalGroups): void
  /** Called synchronously when this term begins to serve, stops taking calls, or ends. */
  onChange(phase: 'serving' | 'retired' | 'ended'): void
}

const maxSwapTries = 5

/**
 * One active term of this replica: it takes over, serves, and ends permanently. The top of replica.ts explains the order
 * of its steps and what each step preserves.
 */
export class ActiveTerm implements Authority {
  readonly term: number
  readonly #leadership: Leadership
  readonly #options: ActiveTermOptions
  readonly #storage: TermStorage
  readonly #over = new AbortController()
  #groups: LocalGroups | undefined
  #serves = false
  #isFromCopy = false
  #end: { readonly why: ActiveTermEnd; readonly error: ServiceError } | undefined

  constructor(leadership: Leadership, options: ActiveTermOptions) {
    this.term = leadership.term
    this.#leadership = leadership
    this.#options = options
    this.#storage = new TermStorage(options.storage, options.confirmed)
  }

  /** The groups while they may be used, otherwise undefined. */
  get serving(): LocalGroups | undefined {
    return this.#serves && this.isProven() ? this.#groups : undefined
  }

  /** Whether the groups are from the copy that this replica kept as a follower. */
  get isFromCopy(): boolean {
    return this.#isFromCopy
  }

  /** Why this term ended, or undefined while it has not. */
  get ended(): { readonly why: ActiveTermEnd; readonly error: ServiceError } | undefined {
    return this.#end
  }

  /** Resolves once this term has ended and none of its calls is in flight. */
  async run(): Promise<void> {
    const { signal } = this.#leadership
    const onAbort = () => this.end('lost', signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (signal.aborted) onAbort()
      const head = await this.#takeOver()
      this.#groups = await this.#load(head)
      this.assert()
      this.#options.onOpen(this.#groups)
      this.#groups.serve()
      this.#serves = true
      this.#options.onChange('serving')
      await new Promise<void>((resolve) => {
        this.#over.signal.addEventListener('abort', () => resolve(), { once: true })
        if (this.#over.signal.aborted) resolve()
      })
    } catch (error) {
      this.end('failed', error)
    }
    signal.removeEventListener('abort', onAbort)
    // All waiting callers have been refused by now. A call that hangs in the storage delays only this replica's next
    // candidacy.
    await this.#groups?.close(this.#end?.error).catch(() => undefined)
    await this.#storage.close()
    this.#groups = undefined
  }

  /** Ends this term at once: from this step on nothing is answered, and all waiting callers are refused. */
  end(why: ActiveTermEnd, cause?: unknown): void {
    if (this.#end) return
    this.#serves = false
    this.#end = { why, error: notActive(why, cause) }
    this.#over.abort()
    this.#groups?.close(this.#end.error).catch(() => undefined)
    this.#options.onChange('ended')
  }

  /** Prepares a clean stop: refuses new calls, and answers calls in flight while this replica still leads. */
  async retire(): Promise<void> {
    if (!this.#serves) return
    this.#serves = false
    this.#options.onChange('retired')
    await this.#groups?.close().catch(() => undefined)
  }

  /** Reads the clock at each call, so that even the first call after a stall returns false if the lease has expired. */
  isProven(): boolean {
    return this.#end === undefined && this.#leadership.isLeader()
  }

  assert(): void {
    if (!this.isProven()) throw this.#end?.error ?? notActive('lost')
  }

  isLost(): boolean {
    return !this.isProven()
  }

  /** Throws at once if this term is lost, because a lost term does not come back. */
  async waitUntilProven(): Promise<void> {
    this.assert()
  }

  async verify(): Promise<void> {
    this.assert()
  }

  async stop(): Promise<void> {}

  /**
   * Swaps the head to this term. If a swap gets no answer, the journal settles it with a write. A fenced swap means
   * that a late write of a predecessor or of a successor came first, and the head's term says which.
   */
  async #takeOver(): Promise<StorageHead> {
    let swap: { readonly journal: Journal; readonly changes: HeadChanges } | undefined
    for (let tries = 1; ; tries += 1) {
      try {
        swap ??= await this.#prepare()
        const head = await swap.journal.swap(swap.changes)
        this.#options.onSwap(swap.changes)
        return head
      } catch (error) {
        this.assert()
        if (tries >= maxSwapTries) throw error
        if (swap?.journal.fenced) swap = undefined
        else await pause(this.#options.clock, this.#options.retryMs, this.#over.signal)
        this.assert()
      }
    }
  }

  async #prepare(): Promise<{ readonly journal: Journal; readonly changes: HeadChanges }> {
    const { storage, confirmed, groups, clock } = this.#options
    const found = await storage.head()
    this.assert()
    if (found.term >= this.term) this.end('superseded')
    this.assert()
    // Read this after the head. If a server takes over between the two reads, this read or the swap then notices it.
    const history = await storage.history?.()
    this.assert()
    // After data loss, the storage may show a lease that others saw expire long ago. So the former active replica may
    // confirm renewals for up to one of its own leases after this replica was elected.
    const lost = confirmed.changesOn(found, history, groups.policy.maxTtlMs + this.#options.leaseMs)
    const journal = new Journal(this.#storage, found, { newId: () => clock.randomId(), recordNow: noGroup })
    return { journal, changes: { ...lost, term: this.term } }
  }

  async #load(head: StorageHead): Promise<LocalGroups> {
    const { clock, groups } = this.#options
    const loaded = (await this.#takeCopy(head)) ?? (await this.#loadPages(head))
    this.assert()
    const serving = new ServingClock(clock)
    const options = {
      ...groups,
      storage: this.#storage,
      authority: this,
      clock: serving,
      storageClock: clock,
      // No grace is needed: see rule 5 at the top of replica.ts.
      graceMs: 0,
      onFenced: () => this.end('fenced'),
    }
    try {
      return await LocalGroups.open(options, loaded)
    } catch (error) {
      serving.stop()
      throw error
    }
  }

  /** Resolves with undefined if this replica has no usable copy. */
  async #takeCopy(head: StorageHead): Promise<LoadedAtHead | undefined> {
    const groups = await this.#options.warmCopy?.take(head, () => this.assert())
    if (groups === 'fenced') this.end('fenced')
    this.assert()
    if (!(groups instanceof LoadedGroups)) return undefined
    this.#isFromCopy = true
    return { head, groups }
  }

  async #loadPages(head: StorageHead): Promise<Loaded> {
    const loaded = await this.#storage.load()
    this.assert()
    if (!isSameHead(loaded.head, head)) this.end('fenced')
    this.assert()
    return { head, pages: this.#whileLeading(loaded.pages) }
  }

  /** Lets renewals of this replica's own lease run after each page, and stops once that lease is lost. */
  async *#whileLeading(pages: AsyncIterable<readonly LoadedGroup[]>): AsyncGenerator<readonly LoadedGroup[]> {
    for await (const page of pages) {
      this.assert()
      yield page
      await nextTurn()
    }
  }
}

function notActive(why: ActiveTermEnd, cause?: unknown): ServiceError {
  const reasons: Record<ActiveTermEnd, string> = {
    lost: 'its own lease has ended',
    fenced: 'another replica has written to the storage',
    superseded: 'another replica has a higher term',
    failed: 'it could not take over',
  }
  const message = `This replica is not active: ${reasons[why]}.`
  return new ServiceError('BACKEND_UNAVAILABLE', message, { cause })
}

/** A swap writes no group, so nobody should ask for a group's record. */
function noGroup(id: string): never {
  throw new Error(`The record of "${id}" is not known yet.`)
}
