import { AsyncQueue } from '@tenure/internal/async-queue'
import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../common/clock.ts'
import type { LeaseRecord } from '../../engine/lease-store.ts'
import type { StoredLease } from './file-format.ts'
import type { Unreached } from './liveness-socket.ts'

/** The functions of the store that a watch needs. */
export interface WatchSource {
  load(): Promise<StoredLease | undefined>
  /** Connects to the holder's liveness socket. */
  reach(lease: StoredLease): Promise<Socket | Unreached>
  /**
   * Calls `listener` when the file may have changed, or once with an error. Returns a function that stops it, or
   * undefined if the directory does not exist.
   */
  listen(listener: (error?: unknown) => void): Promise<(() => void) | undefined>
  readonly clock: Clock
}

/** A connection to the liveness socket of one attempt. */
interface LivenessConnection {
  readonly attempt: string
  readonly version: string
  /** How many connections for this version have already been closed. */
  readonly cuts: number
  socket: Socket | undefined
}

const longestPauseMs = 1_000

/** Yields an election's record as it changes, and yields it as released as soon as its holder is known to be dead. */
export class LeaseFileWatch implements AsyncIterableIterator<LeaseRecord | undefined> {
  readonly #source: WatchSource
  readonly #onEnd: () => void
  readonly #records: AsyncGenerator<LeaseRecord | undefined, undefined>
  #line: LivenessConnection | undefined
  #pause: Timer | undefined
  /**
   * Signals that the file may have changed since the last read. Starts with one signal, so that the first read does
   * not wait.
   */
  readonly #changes = new AsyncQueue<true>('latest', true)
  #error: unknown
  #ended = false
  #stop = (): void => {}

  constructor(source: WatchSource, onEnd: () => void) {
    this.#source = source
    this.#onEnd = onEnd
    this.#records = this.#follow()
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<LeaseRecord | undefined, undefined>> {
    return this.#records.next()
  }

  return(): Promise<IteratorResult<LeaseRecord | undefined, undefined>> {
    // Without this, the generator and its caller would keep waiting for a change.
    this.end()
    return this.#records.return(undefined)
  }

  /** Ends the watch. For a waiting reader, the iteration ends. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#stop()
    this.#hangUp()
    this.#onEnd()
    this.#changes.end()
  }

  async *#follow(): AsyncGenerator<LeaseRecord | undefined, undefined> {
    try {
      // Start listening before the first read, so that no change is missed in between.
      const stop = this.#ended ? undefined : await this.#source.listen((error) => this.#notice(error))
      if (stop) this.#stop = stop
      else if (!this.#ended) {
        yield undefined
        return
      }
      if (this.#ended) this.#stop()
      let shown: string | undefined
      while (!this.#ended) {
        if (this.#error !== undefined) throw this.#error
        if (!this.#changes.take()) {
          await this.#changes.ready()
          continue
        }
        const record = await this.#look()
        const state = record ? `${record.version} ${record.released}` : ''
        if (state === shown || this.#ended) continue
        shown = state
        yield record
      }
    } catch (error) {
      if (!this.#ended) throw error
    } finally {
      this.end()
    }
  }

  #notice(error?: unknown): void {
    this.#error ??= error
    this.#changes.put(true)
  }

  async #look(): Promise<LeaseRecord | undefined> {
    const lease = await this.#source.load()
    if (!lease || lease.record.released || !lease.signOfLife) {
      this.#hangUp()
      return lease?.record
    }
    return (await this.#holderIsDead(lease)) ? { ...lease.record, released: true } : lease.record
  }

  async #holderIsDead(lease: StoredLease): Promise<boolean> {
    const { attempt, version } = lease.record
    const line = this.#line
    if (line?.attempt === attempt && line.socket) return false
    const reached = await this.#source.reach(lease)
    const cuts = line?.version === version ? line.cuts + 1 : 0
    this.#hangUp()
    const next: LivenessConnection = { attempt, version, cuts, socket: undefined }
    this.#line = next
    // The holder may be dying. Without another check, the standby would wait for the whole lease.
    if (reached === 'closed') this.#askAgain(next)
    if (typeof reached === 'string') return reached === 'dead'
    if (this.#ended) reached.destroy()
    next.socket = reached
    reached.once('close', () => {
      next.socket = undefined
      if (this.#line === next) this.#askAgain(next)
    })
    return false
  }

  /**
   * Checks again after a connection closes. A dying process may close its connections before its listening socket and
   * accept one more in between, so a single check is not enough. The interval grows, because a live holder may close
   * every connection forever.
   */
  #askAgain({ cuts }: LivenessConnection): void {
    if (this.#ended) return
    if (cuts === 0) return this.#notice()
    const pauseMs = Math.min(2 ** cuts, longestPauseMs)
    this.#pause = this.#source.clock.setTimer(pauseMs, () => this.#notice(), { background: true })
  }

  #hangUp(): void {
    this.#pause?.cancel()
    const socket = this.#line?.socket
    this.#line = undefined
    socket?.destroy()
  }
}
