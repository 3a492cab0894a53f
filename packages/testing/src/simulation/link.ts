import { type CallOptions, type CompareAndSwap, type LeaseStore, TenureError } from 'tenure'
import type { Current, SwapServer } from 'tenure/store-kit'
import type { Machine } from './machine.ts'
import type { Random } from './random.ts'
import type { World } from './world.ts'

/** The faults of the store's server, which affect all machines. */
export class LinkServer {
  readonly #world: World
  #hangsUntilMs = 0
  #failsUntilMs = 0

  constructor(world: World) {
    this.#world = world
  }

  /** Delays all requests until the server resumes. */
  hang(ms: number): void {
    this.#hangsUntilMs = this.#world.nowMs + ms
  }

  /** Answers requests with an error at once, some of them after the server applied them. */
  fail(ms: number): void {
    this.#failsUntilMs = this.#world.nowMs + ms
  }

  handle(work: () => void): void {
    if (this.#world.nowMs < this.#hangsUntilMs) this.#world.at(this.#hangsUntilMs, work)
    else work()
  }

  get fails(): boolean {
    return this.#world.nowMs < this.#failsUntilMs
  }
}

/** The current condition of the network between one machine and the store. */
export interface NetworkCondition {
  latencyMs: number
  /** How much longer an answer takes than a request. */
  answerDelayMs: number
  /**
   * The probability that the connection of a call breaks. The call fails at once, but the server may have applied it.
   */
  broken: number
  /** The probability that a message is lost. */
  lost: number
  doubled: number
  delayed: number
  /** The maximum delay of a late or duplicated message. */
  delayMs: number
  cutUp: boolean
  cutDown: boolean
  silentWatch: boolean
  /** How often the server replays past events. */
  replayEveryMs: number
}

/** A network without faults. */
export function fairWeather(latencyMs: number, replayEveryMs: number): NetworkCondition {
  return {
    latencyMs,
    answerDelayMs: 0,
    broken: 0,
    lost: 0,
    doubled: 0,
    delayed: 0,
    delayMs: 0,
    cutUp: false,
    cutDown: false,
    silentWatch: false,
    replayEveryMs,
  }
}

/**
 * The path from one machine to the store's server. Every request and every answer is a message that may be affected by
 * a fault.
 */
export class Link {
  readonly #fair: NetworkCondition
  readonly #storms = new Set<Partial<NetworkCondition>>()
  weather: NetworkCondition
  readonly #world: World
  readonly #random: Random
  readonly #machine: Machine
  readonly #server: LinkServer
  readonly #breakers = new Set<() => void>()
  #losesNext = false

  constructor(options: {
    world: World
    random: Random
    machine: Machine
    server: LinkServer
    weather: NetworkCondition
  }) {
    this.#world = options.world
    this.#random = options.random
    this.#machine = options.machine
    this.#server = options.server
    this.#fair = options.weather
    this.weather = options.weather
  }

  /** Degrades the network for a while. Several storms may overlap. */
  storm(change: Partial<NetworkCondition>, forMs: number): void {
    this.#storms.add(change)
    this.weather = { ...this.weather, ...change }
    this.#world.after(forMs, () => {
      this.#storms.delete(change)
      this.weather = Object.assign({ ...this.#fair }, ...this.#storms)
    })
  }

  /** Loses the next message. */
  loseNext(): void {
    this.#losesNext = true
  }

  /** Ends all watches, as a restart of the server does. */
  breakWatches(): void {
    for (const breaker of this.#breakers) breaker()
  }

  get watches(): number {
    return this.#breakers.size
  }

  /** Sends a request. The server runs `apply` once, twice, later, or never. */
  send<T>({ signal }: CallOptions, apply: (options: CallOptions) => Promise<T>): Promise<T> {
    return new Promise((settleWith, failWith) => {
      if (signal.aborted) return failWith(signal.reason)
      const onAbort = () => failWith(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      const resolve = (answer: T) => {
        signal.removeEventListener('abort', onAbort)
        settleWith(answer)
      }
      const reject = (error: unknown) => {
        signal.removeEventListener('abort', onAbort)
        failWith(error)
      }
      const request = () => {
        if (this.#server.fails) {
          // Some calls fail after the server applied them.
          if (this.#random.chance(0.5)) void apply({ signal: new AbortController().signal }).catch(() => undefined)
          return this.#transmit('down', () => reject(unavailable()))
        }
        this.#server.handle(() => {
          // The server does not know that the caller stopped waiting.
          apply({ signal: new AbortController().signal }).then(
            (answer) => this.#transmit('down', () => resolve(answer)),
            (error: unknown) => this.#transmit('down', () => reject(error)),
          )
        })
      }
      this.#transmit('up', request)
      if (this.#random.chance(this.weather.broken)) {
        const inMs = this.weather.latencyMs * this.#random.between(0, 4)
        this.#world.after(inMs, () => this.#machine.deliver(() => reject(unavailable())))
      }
    })
  }

  #transmit(direction: 'up' | 'down', arrive: () => void): void {
    const { weather } = this
    const isLost = this.#losesNext
    this.#losesNext = false
    if (isLost) return
    const copies = this.#random.chance(weather.doubled) ? 2 : 1
    for (let copy = 0; copy < copies; copy += 1) {
      const cut = direction === 'up' ? weather.cutUp : weather.cutDown
      if (cut || this.#random.chance(weather.lost)) continue
      const late = copy > 0 || this.#random.chance(weather.delayed) ? this.#random.next() * weather.delayMs : 0
      const slow = direction === 'down' ? weather.answerDelayMs : 0
      const inMs = (weather.latencyMs + slow) * this.#random.between(0.5, 1.5) + late
      // A request in flight arrives even if its sender has died.
      this.#world.after(inMs, direction === 'up' ? arrive : () => this.#machine.deliver(arrive))
    }
  }

  /** Forwards a watch. Its events may be lost, late, duplicated, or replayed, and it may go silent. */
  async *follow<T>({ signal }: CallOptions, watch: (options: CallOptions) => AsyncIterable<T>): AsyncIterable<T> {
    const arrived: T[] = []
    const ended = new AbortController()
    let broken: { readonly error: unknown } | undefined
    let wake: (() => void) | undefined
    const breaker = (error: unknown = unavailable()) => {
      broken = { error }
      wake?.()
    }
    const onAbort = () => {
      ended.abort()
      wake?.()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    this.#breakers.add(breaker)
    const arrive = (event: T) => {
      arrived.push(event)
      wake?.()
    }
    try {
      this.#pump(watch({ signal: ended.signal }), ended.signal, arrive).catch((error: unknown) => {
        this.#transmit('down', () => breaker(error))
      })
      while (!signal.aborted) {
        while (arrived.length > 0 && !signal.aborted) yield arrived.shift() as T
        if (broken) throw broken.error
        if (!signal.aborted) await new Promise<void>((resolve) => (wake = resolve))
      }
    } finally {
      this.#breakers.delete(breaker)
      ended.abort()
    }
  }

  async #pump<T>(events: AsyncIterable<T>, signal: AbortSignal, arrive: (event: T) => void): Promise<void> {
    const past: T[] = []
    const replay = () => {
      const event = this.#random.pick(past)
      this.#transmit('down', () => arrive(event))
    }
    const keepReplaying = () => {
      if (signal.aborted) return
      if (past.length > 0) replay()
      this.#world.after(this.#random.waiting(this.weather.replayEveryMs), keepReplaying)
    }
    if (this.weather.replayEveryMs < Infinity) keepReplaying()
    for await (const event of events) {
      if (this.weather.silentWatch) continue
      this.#transmit('down', () => arrive(event))
      past.push(event)
      if (past.length > 4) past.shift()
      if (this.#random.chance(this.weather.doubled)) replay()
    }
  }
}

/** A lease store behind a link. */
export function linkStore(link: Link, store: LeaseStore): LeaseStore {
  const { watch } = store
  return {
    expiry: store.expiry,
    terms: store.terms,
    read: (election, call) => link.send(call, (options) => store.read(election, options)),
    acquire: (claim, call) => link.send(call, (options) => store.acquire(claim, options)),
    renew: (claim, call) => link.send(call, (options) => store.renew(claim, options)),
    release: (claim, call) => link.send(call, (options) => store.release(claim, options)),
    ...(watch && {
      watch: (election, call) => link.follow(call, (options) => watch.call(store, election, options)),
    }),
  }
}

/** A compare-and-swap server behind a link. Reading and writing are two separate requests. */
export function linkKv(link: Link, kv: CompareAndSwap): CompareAndSwap {
  const { watch } = kv
  return {
    get: (election, call) => link.send(call, (options) => kv.get(election, options)),
    putIfVersion: (election, value, version, call) =>
      link.send(call, (options) => kv.putIfVersion(election, value, version, options)),
    ...(watch && {
      watch: (election, call) => link.follow(call, (options) => watch.call(kv, election, options)),
    }),
  }
}

/** A server that compares and swaps in one step, behind a link. */
export function linkSwap<Found extends Current>(link: Link, server: SwapServer<Found>): SwapServer<Found> {
  const { watch } = server
  return {
    ...server,
    find: (election, call) => link.send(call, (options) => server.find(election, options)),
    swap: (election, over, draft, call) => link.send(call, (options) => server.swap(election, over, draft, options)),
    ...(watch && {
      watch: (election, call) => link.follow(call, (options) => watch.call(server, election, options)),
    }),
  }
}

function unavailable(): TenureError {
  return new TenureError('BACKEND_UNAVAILABLE', 'The simulated server refused the connection.', { retryable: true })
}
