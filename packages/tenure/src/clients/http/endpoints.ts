import type { Clock, Timer } from '../../common/clock.ts'
import { isTenureError, TenureError } from '../../common/errors.ts'
import { HttpClient, type CallTimeouts, type Peer } from './http-client.ts'

/** One of several addresses. */
export interface Endpoint {
  /** Name in messages. */
  readonly name: string
  readonly peer: Peer
  readonly http: HttpClient
}

interface EndpointDeadline extends CallTimeouts {
  readonly timeoutMs: number
}

const defaultTimeoutMs = 10_000
/** Error codes that mean "no answer". Any other error would be the same on the other addresses. */
const unanswered = ['TIMEOUT', 'BACKEND_UNAVAILABLE']

/** The addresses of one service. If one does not answer in time, the next is tried in parallel. */
export class Endpoints {
  readonly #endpoints: readonly Endpoint[]
  readonly #clock: Clock
  readonly #passing: ReadonlySet<string>
  /** Index of the address that answered last, or of the next one if that has been silent since. */
  #current = 0

  /** Error codes that also lead to the next address, in addition to those that mean "no answer". */
  constructor(peers: readonly Peer[], clock: Clock, passing: readonly string[] = []) {
    this.#clock = clock
    this.#endpoints = peers.map((peer) => ({ name: peer.name, peer, http: new HttpClient(peer, clock) }))
    this.#passing = new Set([...unanswered, ...passing])
  }

  /**
   * Calls `ask` with one address after another, within one deadline for all, until one answers. If an address has not
   * answered after its share of the time, the next one is asked as well, and either may answer. So an address that
   * hangs cannot use up the time of the others, and a slow one can still use all of the time. Several addresses may
   * apply a request, concurrently or in turn, so it must be safe to repeat.
   */
  async ask<T>(
    { signal, timeoutMs = defaultTimeoutMs }: CallTimeouts,
    ask: (endpoint: Endpoint, bounds: EndpointDeadline) => Promise<T>,
  ): Promise<T> {
    const [only, ...others] = this.#endpoints
    if (only && others.length === 0 && timeoutMs > 0) return ask(only, { signal, timeoutMs })
    const deadlineMs = this.#clock.monotonicMs() + timeoutMs
    const ending = new AbortController()
    const onAbort = () => ending.abort(signal.reason)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    const start = this.#current
    try {
      const { index, result } = await this.#race(start, deadlineMs, signal, ending, async (endpoint, leftMs) =>
        ask(endpoint, { signal: ending.signal, timeoutMs: leftMs }),
      )
      this.#current = index
      return result
    } catch (error) {
      if (this.#current === start && this.#isUnanswered(signal, error)) this.#current = this.#indexAt(start + 1)
      throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Yields the parts of an endless answer. Tries another address only if the stream cannot be opened. */
  async *stream<Part>(
    signal: AbortSignal,
    open: (endpoint: Endpoint) => AsyncGenerator<Part, void, undefined>,
  ): AsyncGenerator<Part, void, undefined> {
    const { first, rest } = await this.#any(signal, async (endpoint) => {
      const stream = open(endpoint)
      return { first: await stream.next(), rest: stream }
    })
    try {
      if (first.done) return
      yield first.value
      yield* rest
    } finally {
      await rest.return()
    }
  }

  /** Closes idle connections. */
  close(): void {
    for (const { http } of this.#endpoints) http.close()
  }

  /**
   * Resolves with the first answer and cancels the other calls in flight. The next address is asked when one fails, or
   * when it has used its share of the time.
   */
  #race<T>(
    start: number,
    deadlineMs: number,
    signal: AbortSignal,
    ending: AbortController,
    ask: (endpoint: Endpoint, leftMs: number) => Promise<T>,
  ): Promise<{ readonly index: number; readonly result: T }> {
    const count = this.#endpoints.length
    const failures: unknown[] = []
    return new Promise((resolve, reject) => {
      let asked = 0
      let timer: Timer | undefined
      let isOver = false
      const end = (settle: () => void) => {
        isOver = true
        timer?.cancel()
        if (asked - failures.length > 1) ending.abort(new TenureError('STOPPED', 'Another address answered first.'))
        settle()
      }
      const askNext = () => {
        timer?.cancel()
        const leftMs = deadlineMs - this.#clock.monotonicMs()
        const index = this.#indexAt(start + asked)
        const endpoint = this.#endpoints[index]
        // It is too late to ask anyone. A process that was paused must not send a call that its caller has already
        // abandoned.
        if (asked === count || leftMs <= 0 || !endpoint) {
          if (failures.length === asked) end(() => reject(mostSpecificError(failures) ?? deadlinePassed(endpoint)))
          return
        }
        asked++
        const shareMs = leftMs / (count - asked + 1)
        if (asked < count) timer = this.#clock.setTimer(shareMs, askNext)
        ask(endpoint, leftMs).then(
          (result) => end(() => resolve({ index, result })),
          (error: unknown) => {
            if (isOver) return
            if (!this.#isPassing(signal, error)) return end(() => reject(error))
            failures.push(error)
            askNext()
          },
        )
      }
      askNext()
    })
  }

  #indexAt(place: number): number {
    return place % this.#endpoints.length
  }

  /** True if another address may succeed. */
  #isPassing(signal: AbortSignal, error: unknown): boolean {
    return !signal.aborted && isTenureError(error) && this.#passing.has(error.code)
  }

  #isUnanswered(signal: AbortSignal, error: unknown): boolean {
    return signal.aborted || (isTenureError(error) && unanswered.includes(error.code))
  }

  async #any<T>(signal: AbortSignal, ask: (endpoint: Endpoint) => Promise<T>): Promise<T> {
    const count = this.#endpoints.length
    const start = this.#current
    const failures: unknown[] = []
    for (let tried = 0; tried < count; tried++) {
      const index = this.#indexAt(start + tried)
      const endpoint = this.#endpoints[index]
      if (!endpoint) break
      try {
        const result = await ask(endpoint)
        this.#current = index
        return result
      } catch (error) {
        if (!this.#isPassing(signal, error)) throw error
        failures.push(error)
      }
    }
    throw mostSpecificError(failures)
  }
}

/** Prefers an error that an address returned over the error for an address that did not answer. */
function mostSpecificError(failures: readonly unknown[]): unknown {
  return failures.find((error) => isTenureError(error) && !unanswered.includes(error.code)) ?? failures.at(-1)
}

function deadlinePassed(endpoint: Endpoint | undefined): TenureError {
  const text = `${endpoint?.name ?? 'No address'} was not asked: the deadline has passed.`
  return new TenureError('TIMEOUT', text, { retryable: true })
}
