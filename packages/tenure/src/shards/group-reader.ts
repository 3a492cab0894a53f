/**
 * Reads the group's record, one linearizable read at a time (rule 1 of members). A watch event is only a reason to read:
 * call `wake()`. Without one, the record is read three times per lease (rule 6 asks for once).
 */
import { AsyncQueue } from '@tenure/internal/async-queue'
import { callWithin } from '@tenure/internal/bound'
import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError } from '../common/errors.ts'
import type { LeaseRecord } from '../engine/lease-store.ts'
import { checkFound } from '../engine/store-calls.ts'
import { formatDuration } from '../log/rate-limited-log.ts'
import type { GroupMembership } from './options.ts'
import type { ShardReporter } from './shard-reporter.ts'

/** What the reader of a group needs from its process. */
export interface GroupReaderHost {
  /** The attempt under which the next read is sent. Empty without a seat. */
  attempt(): string
  /** The answer to a read that was sent under this attempt. */
  onRead(record: LeaseRecord | undefined, attempt: string): void
}

/** Reads the group's record until it is stopped. */
export class GroupReader {
  readonly #membership: GroupMembership
  readonly #reporter: ShardReporter
  readonly #host: GroupReaderHost
  readonly #end = new AbortController()
  readonly #reasons = new AsyncQueue<true>('latest')
  #answeredAtMs: number
  #isReported = false

  constructor(membership: GroupMembership, reporter: ShardReporter, host: GroupReaderHost) {
    this.#membership = membership
    this.#reporter = reporter
    this.#host = host
    this.#answeredAtMs = membership.clock.monotonicMs()
  }

  /** There is a reason to read. */
  wake(): void {
    this.#reasons.put(true)
  }

  stop(): void {
    this.#end.abort()
    this.#reasons.end()
  }

  /** Reads until the first answer. */
  async first(): Promise<LeaseRecord | undefined> {
    const { clock, timings } = this.#membership
    for (;;) {
      try {
        return await this.#read()
      } catch (error) {
        this.#end.signal.throwIfAborted()
        this.#failed(error, 0)
      }
      await this.#reasons.readyWithin(clock, timings.retryIntervalMs)
      this.#end.signal.throwIfAborted()
    }
  }

  async run(): Promise<void> {
    const { clock, timings } = this.#membership
    const { signal } = this.#end
    while (!signal.aborted) {
      this.#reasons.take()
      const attempt = this.#host.attempt()
      let waitMs = timings.leaseDurationMs / 3
      try {
        const record = await this.#read()
        if (!signal.aborted) this.#host.onRead(record, attempt)
      } catch (error) {
        if (signal.aborted) return
        // The coordinator's elector reports a store that fails. This is about reads that fail for longer.
        this.#failed(error, timings.leaseDurationMs)
        waitMs = timings.retryIntervalMs
        this.#reasons.take()
      }
      await this.#reasons.readyWithin(clock, waitMs)
    }
  }

  async #read(): Promise<LeaseRecord | undefined> {
    const { store, group, clock, timings } = this.#membership
    const timeoutMs = 2 * timings.retryIntervalMs
    const text = `The store did not answer "read" for "${group}" within ${Math.ceil(timeoutMs)} ms.`
    const late = () => new TenureError('TIMEOUT', text, { retryable: true })
    const record = await callWithin(this.#end.signal, { clock, timeoutMs, late }, async (signal) =>
      checkFound(await store.read(group, { signal, timeoutMs })),
    )
    const nowMs = clock.monotonicMs()
    if (this.#isReported) {
      const after = formatDuration(nowMs - this.#answeredAtMs)
      this.#reporter.recovered(`the assignment of "${group}" can be read again after ${after}`)
    }
    this.#isReported = false
    this.#answeredAtMs = nowMs
    return record
  }

  #failed(error: unknown, patienceMs: number): void {
    const { clock, group } = this.#membership
    const lastedMs = clock.monotonicMs() - this.#answeredAtMs
    if (this.#isReported || lastedMs < patienceMs) return
    this.#isReported = true
    const code = isTenureError(error) ? error.code : 'BACKEND_UNAVAILABLE'
    const text = `The assignment of "${group}" cannot be read: ${messageOf(error)}`
    this.#reporter.failed(new TenureError(code, text, { retryable: true, cause: error }))
  }
}
