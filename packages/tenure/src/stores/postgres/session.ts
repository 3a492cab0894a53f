import type { Clock } from '../../common/clock.ts'
import { invalidOption, optionError, TenureError } from '../../common/errors.ts'
import { withBound } from '@tenure/internal/bound'
import type { CallBound } from '../../common/call-bound.ts'
import {
  checkConnected,
  sequentially,
  isPool,
  senderOf,
  type PostgresClient,
  type PostgresQueryClient,
  type PostgresSqlClient,
  type Run,
  type Send,
} from './client.ts'
import { isUsableAfter } from './failures.ts'
import { preparedSender } from './prepared-statements.ts'
import { prepared } from './statements.ts'

/** A connection of `pg`: a connected `Client`, or a client from a pool. */
export interface PostgresNotifyingClient extends PostgresQueryClient {
  on(event: 'notification', listener: (message: { channel: string; payload?: string | undefined }) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'end', listener: () => void): unknown
  /** Returns the connection to its pool. Only a client from a pool has this method. */
  release?(error?: Error): void
  /** Closes the connection. Clients that do not come from a pool have this method. */
  end?(): Promise<void>
  /** The store calls this while no call is pending, so that the process can end. */
  unref?(): void
  ref?(): void
}

/** A `sql` of `postgres` that only this store uses. It opens one more connection for notifications. */
export interface PostgresListeningSql extends PostgresSqlClient {
  listen(
    channel: string,
    onMessage: (payload: string) => void,
    onListen: () => void,
  ): PromiseLike<{ unlisten(): Promise<void> }>
  end(options?: { timeout?: number | undefined }): Promise<void>
}

/** The result of the option `connect`: a connection for this store alone. */
export type PostgresListenClient = PostgresNotifyingClient | PostgresListeningSql

/** The payload that makes every watch read its election. */
export const readAllPayload = '*'

/** The time limit for closing a connection. */
const closeTimeoutMs = 1_000

/** How long the server may take to start notifications. */
const listenMs = 10_000

/** Receives a payload, or undefined once no more will arrive. */
type NotificationListener = (payload: string | undefined) => void

/** One connection during its lifetime. */
interface SessionConnection {
  readonly connection: PostgresListenClient
  readonly send: Send
  readonly listeners: Set<NotificationListener>
  /** The pending or finished LISTEN of each channel. */
  readonly listening: Map<string, Promise<unknown>>
  /** Number of abandoned statements without an answer so far. */
  unanswered: number
  /**
   * Number of calls and watches that use the connection. If it is 0, the connection does not keep the process alive.
   */
  waiting: number
  isOver: boolean
}

/**
 * One connection for statements and notifications. It is opened when needed, and reopened when it is lost or a
 * statement hangs on it.
 */
export class PostgresSession {
  readonly #connect: () => PromiseLike<PostgresListenClient>
  readonly #clock: Clock
  #wire: SessionConnection | undefined
  /**
   * The newest attempt to connect. An older attempt may still succeed first, for example if it comes earlier in a
   * pool's queue.
   */
  #opening: Promise<void> | undefined
  readonly #onArrival = new Set<() => void>()
  #isClosed = false

  constructor(connect: () => PromiseLike<PostgresListenClient>, clock: Clock) {
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

  /** Resolves once every later notification will be received. Returns a function that stops listening. */
  async listen(channel: string, listener: NotificationListener, bound: CallBound): Promise<() => void> {
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

  /** The server process that the client saw when it connected. A pooler reports its own process id. */
  async backend(bound: CallBound): Promise<number | undefined> {
    const { connection } = await this.#usable(bound)
    const id: unknown = Reflect.get(connection, 'processID')
    return typeof id === 'number' ? id : undefined
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const ended = (this.#opening ?? Promise.resolve()).catch(() => {}).then(() => this.#farewell())
    // A server that is gone never answers the termination message.
    const late = new Promise<void>(
      (resolve) => void this.#clock.setTimer(closeTimeoutMs, resolve, { background: true }),
    )
    await Promise.race([ended, late])
  }

  async #farewell(): Promise<void> {
    if (!this.#wire) return
    const stopWaiting = wait(this.#wire)
    this.#clock.setTimer(closeTimeoutMs, stopWaiting, { background: true })
    await end(this.#wire)
  }

  /** Returns a connection on which no statement hangs. */
  async #usable(bound: CallBound): Promise<SessionConnection> {
    for (;;) {
      if (this.#isClosed) throw new TenureError('STOPPED', 'The store is closed.')
      if (isUsable(this.#wire)) return this.#wire
      if (this.#wire) void end(this.#wire)
      this.#wire = undefined
      const opening = (this.#opening ??= this.#open())
      try {
        await bound.race(opening)
      } catch (error) {
        // The attempt may hang, so the next call starts its own.
        if (this.#opening === opening) this.#opening = undefined
        throw error
      }
    }
  }

  /** Resolves once any attempt has produced a connection. */
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

  /** Uses a connection, or releases it if another one was faster. */
  async #arrive(connection: PostgresListenClient): Promise<void> {
    if (this.#isClosed || isUsable(this.#wire)) {
      await releaseConnection(connection)
    } else {
      if (this.#wire) void end(this.#wire)
      this.#wire = wireOn(connection)
    }
    for (const resolve of this.#onArrival) resolve()
    this.#onArrival.clear()
  }
}

function isUsable(wire: SessionConnection | undefined): wire is SessionConnection {
  return wire?.unanswered === 0 && !wire.isOver
}

/**
 * Returns the connection that `connect` opened, if the store can use it. `client` is the client of the rest of the
 * program, if any.
 */
export async function connection(
  connect: () => PromiseLike<PostgresListenClient>,
  client: PostgresClient | undefined,
): Promise<PostgresListenClient> {
  const given: unknown = await connect()
  const isObject = (typeof given === 'object' && given !== null) || typeof given === 'function'
  const has = (...methods: string[]) =>
    isObject && methods.every((method) => typeof Reflect.get(given, method) === 'function')
  if (!(has('query', 'on') && !isPool(given as object)) && !has('unsafe', 'listen')) {
    const rule = 'it must return a dedicated connection: pool.connect(), a Client from "pg", or the sql from "postgres"'
    throw invalidOption('connect', connect, rule)
  }
  const usable = given as PostgresListenClient
  checkConnected(usable)
  if (client && isPool(client) && client.options?.max === 1 && has('release')) {
    await releaseConnection(usable)
    const text =
      'The pool in option "client" has one connection (max: 1), which "connect" would keep as long as the store lives, so every other call would wait forever. Set max to 2 or more, or let "connect" open a separate Client.'
    throw optionError({ option: 'client' }, text)
  }
  return usable
}

function wireOn(connection: PostgresListenClient): SessionConnection {
  const wire: SessionConnection = {
    connection,
    send: sequentially('on' in connection ? preparedSender(connection) : senderOf(connection)),
    listeners: new Set(),
    listening: new Map(),
    unanswered: 0,
    waiting: 0,
    isOver: false,
  }
  if ('on' in connection) {
    connection.on('error', () => void end(wire))
    connection.on('end', () => void end(wire))
    connection.on('notification', ({ payload = '' }) => notifyListeners(wire, payload))
    connection.unref?.()
  }
  return wire
}

/** Keeps the process alive while a call or watch uses this connection. Returns a function that ends this. */
function wait(wire: SessionConnection): () => void {
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

/** Starts listening for all watches of this connection. Ends the connection if it cannot listen. */
async function startListening(wire: SessionConnection, channel: string, clock: Clock): Promise<void> {
  const text = `PostgreSQL did not start notifications within ${listenMs} ms.`
  const late = () => new TenureError('TIMEOUT', text, { retryable: true })
  const deadline = { clock, timeoutMs: listenMs, late, background: true }
  try {
    await withBound(undefined, deadline, (bound) => bound.race(listenOn(wire, channel, bound)))
  } catch (error) {
    void end(wire)
    throw error
  }
}

function listenOn(wire: SessionConnection, channel: string, bound: CallBound): Promise<unknown> {
  const { connection, send } = wire
  if (!('listen' in connection)) return send(prepared(`listen "${channel}"`), [], bound)
  // This client reconnects by itself. Afterwards every election is read again, because notifications may have been
  // missed.
  const onMessage = (payload: string) => notifyListeners(wire, payload)
  return Promise.resolve(connection.listen(channel, onMessage, () => notifyListeners(wire, readAllPayload)))
}

function notifyListeners({ listeners }: SessionConnection, payload: string | undefined): void {
  for (const listener of listeners) listener(payload)
}

function countUnanswered(wire: SessionConnection, answer: Promise<unknown>): void {
  wire.unanswered += 1
  const settle = () => void (wire.unanswered -= 1)
  answer.then(settle, settle)
}

async function end(wire: SessionConnection): Promise<void> {
  if (wire.isOver) return
  wire.isOver = true
  notifyListeners(wire, undefined)
  await releaseConnection(wire.connection, new Error('The store no longer uses this connection.'))
}

/** Releases a connection. Without an error, it returns to its pool for reuse. */
async function releaseConnection(connection: PostgresListenClient, error?: Error): Promise<void> {
  try {
    if ('listen' in connection) await connection.end({ timeout: 0 })
    else if (connection.release) connection.release(error)
    else await connection.end?.()
  } catch {
    // The connection is already closed.
  }
}
