import type { Clock } from '../../clock.ts'
import { invalidOption, optionError, TenureError } from '../../errors.ts'
import { Bound } from '../../http/bound.ts'
import {
  checkConnected,
  inTurn,
  isPool,
  senderOf,
  type PostgresClient,
  type PostgresQueryClient,
  type PostgresSqlClient,
  type Run,
  type Send,
} from './client.ts'
import { isUsableAfter } from './failures.ts'
import { preparing } from './prepared.ts'
import { prepared } from './statements.ts'

/** A connection of `pg`: a `Client` that is connected, or one that a pool gave away. */
export interface PostgresNotifyingClient extends PostgresQueryClient {
  on(event: 'notification', listener: (message: { channel: string; payload?: string | undefined }) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'end', listener: () => void): unknown
  /** Of a client that a pool gave away. */
  release?(error?: Error): void
  /** Of all others. */
  end?(): Promise<void>
  /** While nothing is awaited, the store lets the process end. */
  unref?(): void
  ref?(): void
}

/** A `sql` of `postgres` that nobody else uses. It keeps one connection more for what it listens to. */
export interface PostgresListeningSql extends PostgresSqlClient {
  listen(
    channel: string,
    onMessage: (payload: string) => void,
    onListen: () => void,
  ): PromiseLike<{ unlisten(): Promise<void> }>
  end(options?: { timeout?: number | undefined }): Promise<void>
}

/** What the option `connect` gives: a connection for this store alone. */
export type PostgresConnection = PostgresNotifyingClient | PostgresListeningSql

/** The payload after which every election is to be looked at. */
export const everything = '*'

/** How long closing may take. */
const farewellMs = 1_000

/** How long the server may take to begin notifying. */
const listenMs = 10_000

/** What a listener hears: a payload, or that from now on it hears nothing. */
type Listener = (payload: string | undefined) => void

/** One connection, as long as it lasts. */
interface Wire {
  readonly connection: PostgresConnection
  readonly send: Send
  readonly listeners: Set<Listener>
  /** By their channels. */
  readonly listening: Map<string, Promise<unknown>>
  /** Statements that were given up and have no answer yet. */
  unanswered: number
  /** How many wait for an answer, or for notifications. Without any, the connection does not keep the process alive. */
  waiting: number
  isOver: boolean
}

/**
 * One connection for statements and notifications, opened when it is needed, and again when it was lost or something
 * hangs on it.
 */
export class Session {
  readonly #connect: () => PromiseLike<PostgresConnection>
  readonly #clock: Clock
  #wire: Wire | undefined
  /** The newest. An older one may still bring a connection sooner: a place in a pool's queue, perhaps. */
  #opening: Promise<void> | undefined
  readonly #onArrival = new Set<() => void>()
  #isClosed = false

  constructor(connect: () => PromiseLike<PostgresConnection>, clock: Clock) {
    this.#connect = connect
    this.#clock = clock
  }

  readonly run: Run = async (statement, values, bound, check) => {
    const wire = await this.#usable(bound)
    const stopWaiting = wait(wire)
    const answer = wire.send(statement, values, bound)
    try {
      const rows = await bound.race(answer)
      check?.(rows)
      return rows
    } catch (error) {
      if (bound.ended) countUnanswered(wire, answer)
      else if (!isUsableAfter(error)) void end(wire)
      throw error
    } finally {
      stopWaiting()
    }
  }

  /** Resolves when all that is notified from now on is heard. Gives what ends that. */
  async listen(channel: string, listener: Listener, bound: Bound): Promise<() => void> {
    const wire = await this.#usable(bound)
    const stopWaiting = wait(wire)
    const stop = () => {
      wire.listeners.delete(listener)
      stopWaiting()
    }
    wire.listeners.add(listener)
    try {
      let listening = wire.listening.get(channel)
      if (!listening) wire.listening.set(channel, (listening = startListening(wire, channel, this.#clock)))
      await bound.race(listening)
    } catch (error) {
      stop()
      throw error
    }
    return stop
  }

  /** The server's process, as the client learned it when it connected. A pooler makes up one of its own. */
  async backend(bound: Bound): Promise<number | undefined> {
    const { connection } = await this.#usable(bound)
    const id: unknown = Reflect.get(connection, 'processID')
    return typeof id === 'number' ? id : undefined
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const ended = (this.#opening ?? Promise.resolve()).catch(() => {}).then(() => this.#farewell())
    // A server that is gone answers no farewell.
    const late = new Promise<void>((resolve) => void this.#clock.setTimer(farewellMs, resolve, { background: true }))
    await Promise.race([ended, late])
  }

  async #farewell(): Promise<void> {
    if (!this.#wire) return
    const stopWaiting = wait(this.#wire)
    this.#clock.setTimer(farewellMs, stopWaiting, { background: true })
    await end(this.#wire)
  }

  /** A connection on which nothing hangs. */
  async #usable(bound: Bound): Promise<Wire> {
    for (;;) {
      if (this.#isClosed) throw new TenureError('STOPPED', 'The store was closed.')
      if (isUsable(this.#wire)) return this.#wire
      if (this.#wire) void end(this.#wire)
      this.#wire = undefined
      const opening = (this.#opening ??= this.#open())
      try {
        await bound.race(opening)
      } catch (error) {
        // It may hang: the next call is to try for itself.
        if (this.#opening === opening) this.#opening = undefined
        throw error
      }
    }
  }

  /** Resolves when a connection is there, whichever was the first. */
  #open(): Promise<void> {
    const opening = new Promise<void>((resolve, reject) => {
      const fail = (error: unknown) => {
        this.#onArrival.delete(resolve)
        reject(error instanceof Error ? error : new Error(String(error)))
      }
      this.#onArrival.add(resolve)
      Promise.resolve(this.#connect())
        .then((connection) => this.#arrive(connection))
        .catch(fail)
    })
    const forget = () => {
      if (this.#opening === opening) this.#opening = undefined
    }
    opening.then(forget, forget)
    return opening
  }

  /** Uses a connection, or gives it back where another one was faster. */
  async #arrive(connection: PostgresConnection): Promise<void> {
    if (this.#isClosed || isUsable(this.#wire)) {
      await giveBack(connection)
    } else {
      if (this.#wire) void end(this.#wire)
      this.#wire = wireOn(connection)
    }
    for (const resolve of this.#onArrival) resolve()
    this.#onArrival.clear()
  }
}

function isUsable(wire: Wire | undefined): wire is Wire {
  return wire?.unanswered === 0 && !wire.isOver
}

/** What `connect` gives, if the store can use it. `client` is what the rest of the program uses, perhaps. */
export async function connection(
  connect: () => PromiseLike<PostgresConnection>,
  client: PostgresClient | undefined,
): Promise<PostgresConnection> {
  const given: unknown = await connect()
  const isObject = (typeof given === 'object' && given !== null) || typeof given === 'function'
  const has = (...methods: string[]) =>
    isObject && methods.every((method) => typeof Reflect.get(given, method) === 'function')
  if (!(has('query', 'on') && !isPool(given as object)) && !has('unsafe', 'listen')) {
    const rule = 'it must give a connection of its own: pool.connect(), a Client of "pg", or the sql of "postgres"'
    throw invalidOption('connect', connect, rule)
  }
  const usable = given as PostgresConnection
  checkConnected(usable)
  if (client && isPool(client) && client.options?.max === 1 && has('release')) {
    await giveBack(usable)
    const text =
      'The pool in option "client" has one connection (max: 1), and "connect" takes it for as long as the store lives: nothing else would ever get one. Set max to 2 or more, or let "connect" open a Client that is not of the pool.'
    throw optionError({ option: 'client' }, text)
  }
  return usable
}

function wireOn(connection: PostgresConnection): Wire {
  const wire: Wire = {
    connection,
    send: inTurn('on' in connection ? preparing(connection) : senderOf(connection)),
    listeners: new Set(),
    listening: new Map(),
    unanswered: 0,
    waiting: 0,
    isOver: false,
  }
  if ('on' in connection) {
    connection.on('error', () => void end(wire))
    connection.on('end', () => void end(wire))
    connection.on('notification', ({ payload = '' }) => hear(wire, payload))
    connection.unref?.()
  }
  return wire
}

/** Somebody waits for this connection, so that the process must not end. Gives what ends that. */
function wait(wire: Wire): () => void {
  const { connection } = wire
  let isWaiting = true
  wire.waiting += 1
  if (wire.waiting === 1 && 'on' in connection) connection.ref?.()
  return () => {
    if (!isWaiting) return
    isWaiting = false
    wire.waiting -= 1
    if (wire.waiting === 0 && 'on' in connection) connection.unref?.()
  }
}

/** For everybody who listens on this connection. A connection that cannot listen is of no more use. */
async function startListening(wire: Wire, channel: string, clock: Clock): Promise<void> {
  const bound = new Bound(new AbortController().signal)
  const text = `PostgreSQL did not begin to notify within ${listenMs} ms.`
  const late = () => bound.end(new TenureError('TIMEOUT', text, { retryable: true }))
  const timer = clock.setTimer(listenMs, late, { background: true })
  try {
    await bound.race(listenOn(wire, channel, bound))
  } catch (error) {
    void end(wire)
    throw error
  } finally {
    timer.cancel()
  }
}

function listenOn(wire: Wire, channel: string, bound: Bound): Promise<unknown> {
  const { connection, send } = wire
  if (!('listen' in connection)) return send(prepared(`listen "${channel}"`), [], bound)
  // It connects again by itself; what was missed meanwhile is looked up.
  const onMessage = (payload: string) => hear(wire, payload)
  return Promise.resolve(connection.listen(channel, onMessage, () => hear(wire, everything)))
}

function hear({ listeners }: Wire, payload: string | undefined): void {
  for (const listener of listeners) listener(payload)
}

function countUnanswered(wire: Wire, answer: Promise<unknown>): void {
  wire.unanswered += 1
  const settle = () => void (wire.unanswered -= 1)
  answer.then(settle, settle)
}

async function end(wire: Wire): Promise<void> {
  if (wire.isOver) return
  wire.isOver = true
  hear(wire, undefined)
  await giveBack(wire.connection, new Error('The store does not use it any more.'))
}

/** What was not used yet goes back into its pool, as if it had not been asked for. */
async function giveBack(connection: PostgresConnection, error?: Error): Promise<void> {
  try {
    if ('listen' in connection) await connection.end({ timeout: 0 })
    else if (connection.release) connection.release(error)
    else await connection.end?.()
  } catch {
    // It is gone, which is what was wanted.
  }
}
