import { callSafely } from '@tenure/internal/call-safely'
import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../common/clock.ts'
import { isTenureError, TenureError } from '../common/errors.ts'
import { stackOf } from '../engine/election-log.ts'
import type { Observer } from '../engine/events.ts'
import type { Log } from '../log/log.ts'
import { formatDuration, LogLines } from '../log/rate-limited-log.ts'
import {
  ChangeQueue,
  type AssignmentReport,
  type ShardChange,
  type ShardObserver,
  type ShardOrigin,
} from './changes.ts'

/**
 * Reports changes and failures to the readers of `changes()`, to the observer, and to the log. Every failure reaches at
 * least one of them.
 */
export class ShardReporter {
  readonly #origin: ShardOrigin
  readonly #group: string
  readonly #clock: Clock
  readonly #observer: ShardObserver | undefined
  /** Undefined if the observer receives failures instead. */
  readonly #lines: LogLines | undefined
  /** Logs errors that the observer itself throws, because they cannot be reported to that observer. */
  readonly #ofListeners: LogLines | undefined
  readonly #queues = new Set<ChangeQueue>()
  #isOpen = false
  #lostSeatAtMs: number | undefined
  #hasSeat = false

  constructor(origin: ShardOrigin, clock: Clock, observer: ShardObserver | undefined, log: Log | false | undefined) {
    this.#origin = origin
    this.#group = origin.group
    this.#clock = clock
    this.#observer = observer
    this.#ofListeners = LogLines.of(clock, log)
    this.#lines = log === undefined && observer?.onShard !== undefined ? undefined : this.#ofListeners
  }

  /** The observer for the coordinator's elector, which does not know about shards, nor about this process's seat. */
  get ofElections(): Observer | undefined {
    const observer = this.#observer
    if (!observer?.onEvent && !observer?.onCall) return undefined
    return {
      ...(observer.onEvent && { onEvent: (event) => observer.onEvent?.(event) }),
      ...(observer.onCall && { onCall: (report) => observer.onCall?.({ ...report, isPresent: this.#hasSeat }) }),
    }
  }

  open(): void {
    this.#isOpen = true
    this.#ofListeners?.open()
  }

  close(): void {
    for (const queue of this.#queues) queue.end()
    if (this.#isOpen) this.#ofListeners?.close()
    this.#isOpen = false
  }

  changes(signal: AbortSignal | undefined, isEnded: boolean): ChangeQueue {
    const onAbort = () => queue.end()
    const queue = new ChangeQueue(() => {
      this.#queues.delete(queue)
      signal?.removeEventListener('abort', onAbort)
    })
    this.#queues.add(queue)
    signal?.addEventListener('abort', onAbort, { once: true })
    if (isEnded || signal?.aborted) queue.end()
    return queue
  }

  tell(change: ShardChange): void {
    if (change.type === 'gained') this.#info(`this process owns shard ${shardText(change)} with token ${change.token}`)
    if (change.type === 'lost') this.#info(`this process no longer owns shard ${shardText(change)}`)
    for (const queue of this.#queues) queue.push(change)
    this.#contain(() => this.#observer?.onShard?.({ ...this.#origin, ...change }))
  }

  /** Whether somebody receives what the coordinator sees. */
  get wantsAssignments(): boolean {
    return this.#observer?.onAssignment !== undefined
  }

  /** Reports what the coordinator sees. */
  assigned(report: Omit<AssignmentReport, keyof ShardOrigin>): void {
    this.#contain(() => this.#observer?.onAssignment?.({ ...this.#origin, ...report }))
  }

  /** Reports a failure. */
  failed(error: unknown): void {
    const isOfWork = isTenureError(error) && error.code.startsWith('WORK_')
    const message = messageOf(error)
    const code = isTenureError(error) && error.code !== 'WORK_FAILED' ? ` [${error.code}]` : ''
    const text = message.includes(`"${this.#group}"`) ? message : `"${this.#group}": ${message}`
    this.#lines?.write(isOfWork ? 'error' : 'warn', `${text}${code}`, {
      name: this.#group,
      countsRepeats: true,
      detailOf: () => (isOfWork ? stackOf(error) : undefined),
    })
    this.tell({ type: 'error', error })
  }

  /** Reports that something works again, after a failure was reported. */
  recovered(text: string): void {
    this.#lines?.write('warn', text, { name: this.#group })
  }

  seatTaken(seat: number): void {
    this.#hasSeat = true
    const lostAtMs = this.#lostSeatAtMs
    this.#lostSeatAtMs = undefined
    if (lostAtMs === undefined) return this.#info(`this process is a member of "${this.#group}" on seat ${seat}`)
    const after = formatDuration(this.#clock.monotonicMs() - lostAtMs)
    this.recovered(`this process is a member of "${this.#group}" again on seat ${seat}, after ${after}`)
  }

  /** The seat was released or lost. */
  seatEnded(): void {
    this.#hasSeat = false
  }

  /** A loss is an error, because all shards of this process go to others. */
  seatLost(loss: unknown, shards: number): void {
    this.#lostSeatAtMs = this.#clock.monotonicMs()
    const text = `this process lost its seat of "${this.#group}", and with it ${shards} ${shards === 1 ? 'shard' : 'shards'}: ${messageOf(loss)}`
    this.#lines?.write('error', text, { name: this.#group })
    this.tell({ type: 'error', error: loss })
  }

  #contain(callListener: () => unknown): void {
    callSafely(callListener, (cause) => {
      const text = `The observer of the shards of "${this.#group}" failed: ${messageOf(cause)}`
      const error = new TenureError('WORK_FAILED', text, { cause })
      this.#ofListeners?.write('error', text, {
        name: this.#group,
        countsRepeats: true,
        detailOf: () => stackOf(error),
      })
    })
  }

  #info(text: string): void {
    this.#lines?.write('info', text, { name: this.#group })
  }
}

/** A shard in messages: its name, or its number. */
export function shardText({ shard, name }: { readonly shard: number; readonly name: string | undefined }): string {
  return name === undefined ? String(shard) : `"${name}"`
}
