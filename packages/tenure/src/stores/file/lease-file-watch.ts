import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../clock.ts'
import type { LeaseRecord } from '../../lease-store.ts'
import type { StoredLease } from './file-format.ts'

/** What a watch needs of the store. */
export interface WatchSource {
  load(): Promise<StoredLease | undefined>
  /** Connects to the holder's sign of life. */
  reach(lease: StoredLease): Promise<Socket | 'dead' | 'unknown'>
  /**
   * Calls back when the file may have changed, or once with an error. Gives a function that ends it; nothing where
   * there is no directory.
   */
  listen(listener: (error?: unknown) => void): Promise<(() => void) | undefined>
  readonly clock: Clock
}

/** A connection to the sign of life of one attempt. */
interface Line {
  readonly attempt: string
  readonly version: string
  /** How many connections to this version ended before. */
  readonly cuts: number
  socket: Socket | undefined
}

const longestPauseMs = 1_000

/** Shows one election's record as it changes, and as released as soon as its holder is known to be dead. */
export class LeaseFileWatch implements AsyncIterableIterator<LeaseRecord | undefined> {
  readonly #source: WatchSource
  readonly #onEnd: () => void
  readonly #records: AsyncGenerator<LeaseRecord | undefined, undefined>
  #line: Line | undefined
  #pause: Timer | undefined
  #changed = true
  #error: unknown
  #ended = false
  #stop = (): void => {}
  #wake = (): void => {}

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
    // Without this a generator that waits for a change would keep the caller waiting too.
    this.end()
    return this.#records.return(undefined)
  }

  /** Ends the watch; a reader that waits gets the end. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#stop()
    this.#hangUp()
    this.#onEnd()
    this.#wake()
  }

  async *#follow(): AsyncGenerator<LeaseRecord | undefined, undefined> {
    try {
      // Listening starts before the first look, so that no change falls in between.
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
        if (!this.#changed) {
          await new Promise<void>((resolve) => (this.#wake = resolve))
          continue
        }
        this.#changed = false
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
    this.#changed = true
    this.#wake()
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
    const next: Line = { attempt, version, cuts, socket: undefined }
    this.#line = next
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
   * A process that dies may close its connections before the socket it listens on, and accept one more in between. So
   * a cut is always followed by another question, more and more slowly: a holder may cut every connection for ever.
   */
  #askAgain({ cuts }: Line): void {
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
