/**
 * The work of this process on one shard under one token: the work function, what it passes to `waitUntil`, and the holds
 * on keys. The shard is handed over only after all of it has settled.
 */
import { setMaxListeners } from 'node:events'
import { messageOf } from '@tenure/internal/message'
import { pause } from '@tenure/internal/pause'
import type { Clock, Timer } from '../common/clock.ts'
import { TenureError } from '../common/errors.ts'
import { answerByClock } from '../engine/clock-signal.ts'
import type { ShardContext, ShardFunction } from './options.ts'
import { shardText } from './shard-reporter.ts'

/** What the work on a shard needs from its process. */
export interface ShardWorkHost {
  readonly group: string
  readonly clock: Clock
  readonly drainTimeoutMs: number
  /** The delay before failed work is started again. It doubles each time, up to a minute. */
  readonly retryDelayMs: number
  readonly work: ShardFunction | undefined
  /** Aborts this work if the lease of the seat has ended by the clock. */
  look(run: ShardRun): void
  /** Everything has settled after the abort. */
  onSettled(run: ShardRun): void
  /** Work has not settled within the drain timeout. */
  onUnsettled(error: TenureError): void
  onFailure(error: TenureError): void
}

const longestDelayMs = 60_000

/** The work of this process on one shard under one token. */
export class ShardRun {
  readonly shard: number
  readonly name: string | undefined
  readonly token: number
  readonly #host: ShardWorkHost
  readonly #controller = new AbortController()
  #pending = 0
  #drain: Timer | undefined
  #isSettled = false
  #isOverdue = false
  readonly #whenSettled: (() => void)[] = []

  constructor(host: ShardWorkHost, { shard, name, token }: Pick<ShardContext, 'shard' | 'name' | 'token'>) {
    this.#host = host
    this.shard = shard
    this.name = name
    this.token = token
    // All holds on keys of the shard share this signal, and Node.js would warn about more than ten listeners.
    setMaxListeners(0, this.#controller.signal)
    answerByClock(this.#controller.signal, () => {
      if (!this.isAborted) host.look(this)
    })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Whether the signal has aborted, without checking the clock. */
  get isAborted(): boolean {
    return this.#drain !== undefined || this.#isSettled
  }

  /** Whether the work has not settled within the drain timeout. */
  get isOverdue(): boolean {
    return this.#isOverdue
  }

  /** Resolves when everything has settled after the abort. */
  get settled(): Promise<void> {
    if (this.#isSettled) return Promise.resolve()
    return new Promise((resolve) => this.#whenSettled.push(resolve))
  }

  /** Starts the work function. It does not run within the caller's step, so that it may call back. */
  start(): void {
    const { work } = this.#host
    if (work) this.#track(Promise.resolve().then(() => this.#perform(work)))
  }

  /** Adds work that must settle before the shard is handed over. Throws if it is too late. */
  waitUntil(work: Promise<unknown>): void {
    if (this.#isSettled) throw this.signal.reason
    this.#track(Promise.resolve(work).catch((error: unknown) => this.#failed(error)))
  }

  /** Runs a function that counts as work on this shard, and returns its result. */
  run<T>(action: () => Promise<T>): Promise<T> {
    const result = action()
    this.#track(result.catch(() => undefined))
    return result
  }

  abort(reason: unknown): void {
    if (this.isAborted) return
    const { clock, drainTimeoutMs } = this.#host
    this.#drain = clock.setTimer(drainTimeoutMs, () => this.#late())
    this.#controller.abort(reason)
    // The caller is in a step of the rules, and takes the end of the work afterwards.
    void Promise.resolve().then(() => this.#settleIfDone())
  }

  #late(): void {
    if (this.#isSettled) return
    this.#isOverdue = true
    const { group, drainTimeoutMs } = this.#host
    const text = `The work on shard ${shardText(this)} of "${group}" has not settled within ${drainTimeoutMs} ms after its signal aborted. This process gives up its seat without a release, so its shards go to others after one lease, and it takes another seat only after this work has settled.`
    this.#host.onUnsettled(new TenureError('WORK_UNSETTLED', text))
  }

  #track(work: Promise<unknown>): void {
    this.#pending += 1
    void work.finally(() => {
      this.#pending -= 1
      this.#settleIfDone()
    })
  }

  #settleIfDone(): void {
    if (this.#pending > 0 || this.#isSettled || !this.#drain) return
    this.#isSettled = true
    this.#drain.cancel()
    for (const resolve of this.#whenSettled) resolve()
    this.#host.onSettled(this)
  }

  /** Work that returns is done. Work that fails is started again, because nobody else works on the shard. */
  async #perform(work: ShardFunction): Promise<void> {
    const { clock } = this.#host
    const { shard, name, token, signal } = this
    const context: ShardContext = { shard, name, token, signal, waitUntil: (more) => this.waitUntil(more) }
    for (let delayMs = this.#host.retryDelayMs; !signal.aborted; delayMs = Math.min(2 * delayMs, longestDelayMs)) {
      try {
        await work(context)
        return
      } catch (error) {
        this.#failed(error)
      }
      await pause(clock, delayMs, signal)
    }
  }

  /** Work that rejects because its signal aborted has not failed. */
  #failed(cause: unknown): void {
    if (this.isAborted && isAbort(cause, this.signal.reason)) return
    const text = `The work on shard ${shardText(this)} of "${this.#host.group}" failed: ${messageOf(cause)}`
    this.#host.onFailure(new TenureError('WORK_FAILED', text, { cause }))
  }
}

/** Whether an error only says that a signal has aborted with this reason. */
export function isAbort(error: unknown, reason: unknown): boolean {
  try {
    return error === reason || (error instanceof Error && error.name === 'AbortError')
  } catch {
    // Work may throw anything, even a value whose properties throw when read.
    return false
  }
}
