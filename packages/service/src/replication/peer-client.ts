import { request as requestPlain, type ClientRequest, type IncomingMessage } from 'node:http'
import { request as requestTls } from 'node:https'
import type { Socket } from 'node:net'
import { isLoopbackHost } from '@tenure/internal/loopback'
import type { Clock, Timer } from 'tenure'
import { errorStatus, ServiceError, type ServiceErrorCode } from '../common/errors.ts'
import { ended, PeerConnection, type PeerMessage } from './peer-connection.ts'
import {
  isProof,
  peerHeaders,
  peerKeys,
  peerPath,
  newNonce,
  proofOf,
  protocol,
  type PeerKey,
} from './peer-authentication.ts'
import { SubjectSlots as Room } from '../common/budgets.ts'
import type { Caller } from '../groups/port.ts'
import type { ReplicasView } from './replica-views.ts'
import type { AnswerOf, ArgsOf, PeerCallName } from './peer-calls.ts'
import type { KnownTerms } from './term-announcements.ts'

/** Why the active replica did not answer a call. */
export class PeerError extends Error {
  override readonly name = 'PeerError'
  /** Whether the call may have been carried out. */
  readonly mayBeDone: boolean

  constructor(message: string, mayBeDone: boolean, options?: ErrorOptions) {
    super(message, options)
    this.mayBeDone = mayBeDone
  }
}

export interface PeerClientOptions {
  readonly clusterId: string
  /** Returns the secret in the head of the storage. */
  secret(): string
  readonly terms: KnownTerms
  readonly clock: Clock
  /** Returns the CAs of the active replica's certificate. Default: the CAs that Node trusts. */
  readonly ca?: (() => string | undefined) | undefined
  /** Called when the active replica cannot be reached, or refuses this replica. */
  readonly onTrouble?: ((error: PeerError) => void) | undefined
  /** How the active replica shows this one to operators. */
  readonly self: { readonly replica: string; readonly address: string }
}

/** The options of a call. */
export interface PeerCallOptions {
  /** How long the caller waits. */
  readonly deadlineMs: number
  /** Aborts when the caller has disconnected. */
  readonly signal?: AbortSignal | undefined
  /** The caller for whom the call is made. Undefined if this replica makes the call for itself. */
  readonly caller?: Caller | undefined
}

interface Pending {
  readonly untilMs: number
  isSent: boolean
  resolve(answer: unknown): void
  reject(error: Error): void
  /** Stops listening to the caller's signal, and frees the memory budget of the call. */
  forget(): void
}

const connectMs = 2_000
const sweepMs = 200
/**
 * How many bytes unanswered calls may take, for one subject and in total. More than that means that the active replica
 * cannot keep up.
 */
const maxBytesPerSubject = 8 * 2 ** 20
const maxBytes = 32 * 2 ** 20
const soonMs = 1_000

/** One connection to a replica that is believed to be active. Once closed, the connection stays closed. */
export class PeerClient {
  readonly address: string
  readonly #options: PeerClientOptions
  readonly #pending = new Map<number, Pending>()
  readonly #room = new Room(maxBytesPerSubject, maxBytes)
  /** Campaigns may wait for a minute. They must not take slots that renewals need. */
  readonly #campaignRoom = new Room(maxBytesPerSubject, maxBytes)
  /** Calls that were made before the connection was established. */
  #early: { readonly id: number; readonly json: string; readonly caller: Caller | undefined }[] = []
  #connection: PeerConnection | undefined
  #connecting: ClientRequest | undefined
  #connectTimer: Timer | undefined
  #sweep: Timer | undefined
  #lastId = 0
  /** The position that was last confirmed to the active replica. */
  #heard = ''
  #isClosed = false
  /**
   * Processes changes that the active replica sends. Returns the position up to which all changes are known afterwards.
   */
  onChanges: ((told: readonly unknown[]) => string) | undefined
  onClose: (() => void) | undefined

  constructor(address: string, options: PeerClientOptions) {
    this.address = address
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Rejects with a {@link PeerError} if the active replica gave no answer. */
  call<Name extends PeerCallName>(verb: Name, args: ArgsOf<Name>, options: PeerCallOptions): Promise<AnswerOf<Name>> {
    return this.#ask(verb, args, options) as Promise<AnswerOf<Name>>
  }

  /** Requests the changes after a position. Once this resolves, {@link onChanges} receives them. */
  async follow(after: unknown, renewals: boolean, deadlineMs: number): Promise<void> {
    await this.#ask('follow', [after, renewals], { deadlineMs })
  }

  /** Returns the replicas as the active one sees them. */
  replicas(deadlineMs: number): Promise<ReplicasView> {
    return this.#ask('replicas', [], { deadlineMs }) as Promise<ReplicasView>
  }

  close(reason = 'The connection to the active replica is closed.'): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#sweep?.cancel()
    this.#connectTimer?.cancel()
    this.#connecting?.destroy()
    this.#connection?.close()
    for (const [id, { isSent }] of this.#pending) this.#take(id)?.reject(new PeerError(reason, isSent))
    this.onClose?.()
  }

  #ask(verb: string, args: unknown, { deadlineMs, signal, caller }: PeerCallOptions): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new PeerError('The connection is closed.', false))
    const id = ++this.#lastId
    const json = `[${id},"${verb}",${JSON.stringify(args)},${Math.max(0, Math.ceil(deadlineMs))}]`
    const room = verb === 'campaign' ? this.#campaignRoom : this.#room
    const leave = room.enter(caller?.subject ?? '', json.length)
    // The follow call is never refused: there is only one, and all watchers of this replica depend on it.
    if (!leave && verb !== 'follow') return Promise.reject(busy(room.taken >= maxBytes))
    return new Promise((resolve, reject) => {
      const cancel = () => {
        if (this.#connection) return this.#connection.queue('cancels', String(id))
        // Otherwise a campaign could wait in the queue and win for a caller that has disconnected.
        this.#take(id)?.reject(new PeerError('The caller has disconnected.', false))
      }
      signal?.addEventListener('abort', cancel, { once: true })
      const forget = () => {
        signal?.removeEventListener('abort', cancel)
        leave?.()
      }
      const untilMs = this.#options.clock.monotonicMs() + deadlineMs
      this.#pending.set(id, { untilMs, isSent: this.#connection !== undefined, resolve, reject, forget })
      if (this.#connection) this.#connection.call(id, json, caller)
      else this.#early.push({ id, json, caller })
      if (signal?.aborted) cancel()
      this.#connect()
      this.#sweep ??= this.#sweepLater()
    })
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    pending?.forget()
    return pending
  }

  /** All calls share one timer. */
  #sweepLater(): Timer {
    return this.#options.clock.setTimer(sweepMs, () => this.#sweepNow(), { background: true })
  }

  #sweepNow(): void {
    const nowMs = this.#options.clock.monotonicMs()
    for (const [id, { untilMs, isSent }] of this.#pending) {
      if (nowMs < untilMs) continue
      this.#connection?.queue('cancels', String(id))
      this.#take(id)?.reject(new PeerError('The active replica has not answered in time.', isSent))
    }
    this.#sweep = this.#pending.size > 0 ? this.#sweepLater() : undefined
  }

  /**
   * Tries the newest key first, then the older ones: the other side may not have read the storage since the secret was
   * replaced.
   */
  #connect(): void {
    if (this.#connecting) return
    this.#connectWith(peerKeys(this.#options.secret()))
  }

  #connectWith([key, ...older]: readonly PeerKey[]): void {
    const { hostname, port, protocol: scheme } = new URL(this.address)
    if (scheme !== 'https:' && !isLoopbackHost(hostname)) {
      // Do not fail synchronously, because the code that makes the first call does not expect a failure yet.
      queueMicrotask(() => this.#giveUp(`${this.address} is neither an https: URL nor on this machine.`))
      return
    }
    if (!key) return this.#giveUp(`${this.address} has a different secret.`)
    const { clock, clusterId } = this.#options
    const ca = this.#options.ca?.()
    const nonce = newNonce()
    const request = scheme === 'https:' ? requestTls : requestPlain
    this.#connecting = request({
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port,
      path: peerPath,
      agent: false,
      ...(ca !== undefined && { ca }),
      headers: {
        connection: 'Upgrade',
        upgrade: protocol,
        [peerHeaders.cluster]: clusterId,
        [peerHeaders.key]: key.name,
        [peerHeaders.nonce]: nonce,
      },
    })
    this.#connectTimer ??= clock.setTimer(connectMs, () => this.#giveUp('The active replica cannot be reached.'))
    this.#connecting.once('error', (error) => this.#giveUp(`The active replica cannot be reached: ${error.message}`))
    this.#connecting.once('response', (response) => {
      response.resume()
      if (response.statusCode === 401 && older.length > 0 && !this.#isClosed) return this.#connectWith(older)
      this.#giveUp(`${this.address} refuses this replica: ${response.statusCode} ${response.statusMessage}`)
    })
    this.#connecting.once('upgrade', (response: IncomingMessage, socket: Socket, head: Buffer) =>
      this.#onUpgrade(response, socket, head, { key, nonce }),
    )
    this.#connecting.end()
  }

  /** Ends a connection attempt. */
  #giveUp(reason: string): void {
    if (!this.#isClosed) this.#options.onTrouble?.(new PeerError(reason, false))
    this.close(reason)
  }

  #onUpgrade(
    response: IncomingMessage,
    socket: Socket,
    head: Buffer,
    { key: { key }, nonce }: { readonly key: PeerKey; readonly nonce: string },
  ): void {
    const { clock, terms, clusterId, self } = this.#options
    const greeting = { clusterId, caller: nonce, called: String(response.headers[peerHeaders.nonce]) }
    if (this.#isClosed || !isProof(response.headers[peerHeaders.proof], proofOf('called', key, greeting))) {
      socket.destroy()
      return this.#giveUp(`${this.address} does not know the secret of this cluster.`)
    }
    this.#connectTimer?.cancel()
    this.#connection = new PeerConnection(socket, head, {
      clock,
      term: () => terms.highest,
      onMessage: (message) => this.#onMessage(message),
      onClose: () => this.close(),
    })
    this.#connection.trust()
    const from = JSON.stringify([self.replica, self.address])
    this.#connection.send(`,"proof":"${proofOf('caller', key, greeting)}","from":${from}`)
    for (const { id, json, caller } of this.#early.splice(0)) {
      const pending = this.#pending.get(id)
      if (!pending) continue
      pending.isSent = true
      this.#connection.call(id, json, caller)
    }
  }

  #onMessage({ term, answers = [], told = [] }: PeerMessage): void {
    // The sender is no longer active but does not know it yet, so anything it sends may be outdated.
    if (term < this.#options.terms.highest) return this.close('The replica is no longer active.')
    this.#options.terms.observe(term)
    for (const [id, how, value] of answers) {
      const pending = this.#take(id)
      if (how === ended.done) pending?.resolve(value ?? undefined)
      else pending?.reject(how === ended.failed ? errorFrom(value) : new PeerError('The replica is not active.', false))
    }
    if (told.length > 0 && this.onChanges) this.#confirm(this.onChanges(told))
  }

  /**
   * Confirms changes, so that operators see which follower is behind, and by how much. Renewals do not move the
   * position.
   */
  #confirm(heard: string): void {
    if (heard === this.#heard) return
    this.#heard = heard
    this.#connection?.send(`,"heard":"${heard}"`)
  }
}

/** The error for a call that exceeds a limit: the limit for all calls, or only that of its subject (`RATE_LIMITED`). */
function busy(withAll: boolean): ServiceError {
  const details = { retry_after_ms: soonMs }
  return withAll
    ? new ServiceError('BACKEND_UNAVAILABLE', 'The active replica cannot keep up.', { details })
    : new ServiceError('RATE_LIMITED', 'Too many calls are waiting for the active replica.', { details })
}

function errorFrom(value: unknown): ServiceError {
  const { code, message, status, details } = value as Partial<ServiceError>
  const known: ServiceErrorCode = code !== undefined && Object.hasOwn(errorStatus, code) ? code : 'BACKEND_UNAVAILABLE'
  return new ServiceError(known, message ?? 'The active replica failed to process this request.', {
    ...(status !== undefined && { status }),
    details: details ?? {},
  })
}
