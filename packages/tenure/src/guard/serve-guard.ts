/**
 * The guard of one process, for programs that are guards themselves. Internal to Tenure's own packages: it may change in
 * any release, so they depend on this exact version.
 *
 * @module
 */
import type { Readable } from 'node:stream'
import { callWithin } from '@tenure/internal/bound'
import { canSeeProcesses, isRunning, processEntry, processNamespace } from '@tenure/internal/process-status'
import { systemClock, type Clock, type Timer } from '../common/clock.ts'
import type { CallOptions, LeaseStore } from '../engine/lease-store.ts'
import {
  guardStep,
  initialGuardState,
  nextGuardWakeMs,
  type GuardedAttempt,
  type GuardEffect,
  type GuardInput,
  type ProcessStatus,
} from '../engine/guard/guard.ts'
import { MessageReader, type GuardMessage } from '../engine/guard/messages.ts'

/** How long one call of the guard may take before it is repeated. */
const callTimeoutMs = 2_000

/** The part of a store that a guard uses. It never acquires or renews. */
export type GuardedStore = Pick<LeaseStore, 'read' | 'release' | 'close'>

/** The options of a guard, besides its pipe. */
export interface GuardOptions {
  /** Opens the store of a registered attempt. Called once per URL while attempts are registered. */
  open(storeUrl: string): Promise<GuardedStore>
  /**
   * Whether to refuse a process that is not visible when it introduces itself. Required if the guard is not a child of
   * the process: if the guard's view of the system differs, for example in another time namespace, every process would
   * look dead. Default: false, because a process may die before its new guard reads the first message.
   */
  readonly mustSeeProcess?: boolean | undefined
  /** The maximum number of attempts that a process may register. Default: no limit. */
  readonly mostAttempts?: number | undefined
  readonly clock?: Clock | undefined
}

type GuardInputBody = GuardInput extends infer Each ? (Each extends GuardInput ? Omit<Each, 'nowMs'> : never) : never

/** Guards one process over one pipe: see `guard.ts` for the rules. */
export class GuardServer {
  /** Resolves when the guard has nothing left to do. */
  readonly done: Promise<void>
  readonly #options: GuardOptions
  readonly #clock: Clock
  readonly #reader = new MessageReader()
  readonly #stores = new Map<string, Promise<GuardedStore>>()
  #process: { readonly id: number; readonly startedAt: string } | undefined
  #state = initialGuardState
  #timer: Timer | undefined
  #finish = (): void => undefined

  constructor(pipe: Readable, options: GuardOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.done = new Promise((resolve) => (this.#finish = resolve))
    pipe.setEncoding('utf8')
    pipe.on('data', (text: string) => this.#receive(text, pipe))
    // A connection that was reset has also ended.
    for (const end of ['end', 'error', 'close']) pipe.on(end, () => this.#dispatch({ type: 'pipe-ended' }))
  }

  /** Ends the guard after its calls in flight. Has no effect while the pipe is open. */
  terminate(): void {
    this.#dispatch({ type: 'terminate' })
  }

  #receive(text: string, pipe: Readable): void {
    try {
      for (const message of this.#reader.read(text)) this.#handle(message)
    } catch (error) {
      // A message that cannot be understood is ignored. Without a known process, nothing is ever released.
      this.#process = undefined
      pipe.destroy(error as Error)
    }
  }

  #handle(message: GuardMessage): void {
    if (message.type === 'process') {
      const { id, startedAt, namespace } = message
      // The process may have died before this message was read, so its absence is not an error. But in another
      // namespace it would never be visible, and would always look dead.
      if (!canSeeProcesses() || namespace !== processNamespace())
        throw new Error('The process is in another PID namespace.')
      this.#process = { id, startedAt }
      if (this.#options.mustSeeProcess && this.#status() !== 'running')
        throw new Error('The process is not visible in /proc.')
    } else {
      this.#dispatch(message)
      if (this.#state.attempts.length > (this.#options.mostAttempts ?? Infinity))
        throw new Error(`The process registered more than ${this.#options.mostAttempts} attempts.`)
      if (message.type !== 'sending') this.#openStores()
    }
  }

  #dispatch(input: GuardInputBody): void {
    if (this.#state.phase === 'over') return
    const { state, effects } = guardStep(this.#state, { ...input, nowMs: this.#clock.monotonicMs() })
    this.#state = state
    for (const effect of effects) this.#perform(effect)
    this.#timer?.cancel()
    const wakeMs = nextGuardWakeMs(this.#state)
    if (wakeMs === undefined) return
    this.#timer = this.#clock.setTimer(wakeMs - this.#clock.monotonicMs(), () => this.#dispatch({ type: 'wake' }))
  }

  #perform(effect: GuardEffect): void {
    switch (effect.type) {
      case 'look-at-process':
        return this.#dispatch({ type: 'process', status: this.#status() })
      case 'read':
        return void this.#read(effect.attempt)
      case 'release':
        return void this.#release(effect)
      case 'exit':
        return this.#exit()
    }
  }

  #status(): ProcessStatus {
    if (!this.#process) return 'unknown'
    const entry = processEntry(this.#process.id)
    if (entry === 'unknown') return 'unknown'
    if (!entry || entry.startedAt !== this.#process.startedAt) return 'gone'
    return isRunning(entry) ? 'running' : 'gone'
  }

  async #read({ storeUrl, election, attempt }: GuardedAttempt): Promise<void> {
    try {
      const record = await this.#call(storeUrl, (store, call) => store.read(election, call))
      this.#dispatch({ type: 'found', attempt, record, writeId: this.#clock.randomId() })
    } catch {
      this.#dispatch({ type: 'failed', attempt })
    }
  }

  async #release({ attempt: { storeUrl, attempt }, claim }: GuardEffect & { type: 'release' }): Promise<void> {
    try {
      const { ok } = await this.#call(storeUrl, (store, call) => store.release(claim, call))
      this.#dispatch({ type: 'released', attempt, ok })
    } catch {
      this.#dispatch({ type: 'failed', attempt })
    }
  }

  /** Opening a store counts as well, so that the guard ends in time no matter what hangs. */
  #call<T>(storeUrl: string, call: (store: GuardedStore, options: CallOptions) => Promise<T>): Promise<T> {
    const late = () => new Error('The store has not answered the guard in time.')
    const deadline = { clock: this.#clock, timeoutMs: callTimeoutMs, late }
    return callWithin(undefined, deadline, async (signal) => {
      const store = await this.#storeOf(storeUrl)
      return call(store, { signal, timeoutMs: callTimeoutMs })
    })
  }

  /** Connects as soon as something is registered, so that a release needs no new connection. Disconnects afterwards. */
  #openStores(): void {
    const wanted = new Map(this.#state.attempts.map(({ storeUrl, election }) => [storeUrl, election]))
    for (const [url, election] of wanted) {
      if (this.#stores.has(url)) continue
      this.#call(url, (store, call) => store.read(election, call)).catch(() => undefined)
    }
    for (const url of this.#stores.keys()) if (!wanted.has(url)) this.#close(url)
  }

  #storeOf(url: string): Promise<GuardedStore> {
    const known = this.#stores.get(url)
    if (known) return known
    const opening = this.#options.open(url)
    this.#stores.set(url, opening)
    // Without this, a single failure would be permanent.
    opening.catch(() => this.#stores.delete(url))
    return opening
  }

  #close(url: string): void {
    const opening = this.#stores.get(url)
    this.#stores.delete(url)
    void opening?.then((store) => store.close?.()).catch(() => undefined)
  }

  #exit(): void {
    for (const url of this.#stores.keys()) this.#close(url)
    this.#finish()
  }
}
