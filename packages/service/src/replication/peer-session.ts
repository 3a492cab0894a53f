import type { Socket } from 'node:net'
import type { Timer } from 'tenure'
import { ServiceError } from '../common/errors.ts'
import type { Lane } from '../common/fair-queue.ts'
import type { Caller } from '../groups/port.ts'
import type { FollowerView, ReplicasView } from './replica-views.ts'
import { positionFrom, type Position } from '../storage/position.ts'
import { ended, PeerConnection, maxMessageBytes, type PeerMessage } from './peer-connection.ts'
import { isProof } from './peer-authentication.ts'
import type { PeerServerOptions } from './peer-server.ts'
import { PeerStream } from './peer-stream.ts'
import { parseCall } from './peer-calls.ts'
import { isSameActiveTerm, type ActiveReplica, type LocalReplica } from './active-replica.ts'

interface PeerSessionOptions extends Pick<
  PeerServerOptions,
  'activeReplicas' | 'terms' | 'clock' | 'changes' | 'fairQueue' | 'budget'
> {
  /** The proof that the other side must send first. */
  readonly proof: string
  readonly greetingMs: number
  /** Returns all replicas, for an operator who queries this follower. */
  replicas(): ReplicasView
  /** Called once the other side has proven that it belongs to this cluster. */
  onKnown(): void
  onClose(): void
}

type PeerCall = NonNullable<PeerMessage['calls']>[number]

/** A call whose turn it is. */
interface RunningCall {
  readonly caller: Caller | undefined
  readonly controller: AbortController
  /** When the caller stops waiting, on the monotonic clock. */
  readonly untilMs: number
}

/** The limit for unanswered calls of a follower. Each follower itself has a lower limit per subject. */
const maxInFlight = 65_536
/** How many bytes are charged as one request. */
const bytesPerRequest = 4_096
/** A follower with more unread bytes than this is disconnected. It reconnects and repeats its calls. */
const maxUnreadBytes = 64 * 2 ** 20
const soonMs = 1_000

/** A connected follower. Its calls end with its connection. */
export class PeerSession {
  readonly #options: PeerSessionOptions
  readonly #connection: PeerConnection
  /** Calls that wait for their turn or are in progress, with the controllers that end them. */
  readonly #inFlight = new Map<number, AbortController>()
  /** The callers whose calls have not arrived yet. */
  readonly #callers = new Map<number, Caller>()
  /** The follower's own calls take turns together, as one caller. */
  readonly #ownLane: Lane = { name: 'replica' }
  readonly #greeting: Timer
  /**
   * When the follower was authenticated, and its name and address. Undefined until it has proven that it belongs to
   * this cluster.
   */
  #known: { readonly sinceMs: number; readonly replica: string; readonly address: string } | undefined
  /** The follower knows all changes up to this position. */
  #heard: Position | undefined
  #stream: PeerStream | undefined

  constructor(socket: Socket, head: Buffer, options: PeerSessionOptions) {
    const { clock, terms } = options
    this.#options = options
    this.#connection = new PeerConnection(socket, head, {
      clock,
      term: () => terms.highest,
      onMessage: (message) => this.#onMessage(message),
      onClose: () => this.#onClose(),
      onDrain: () => this.#stream?.onDrain(),
    })
    this.#greeting = clock.setTimer(options.greetingMs, () => this.close(), { background: true })
  }

  /** Undefined until the follower has authenticated. */
  get view(): FollowerView | undefined {
    if (!this.#known) return undefined
    const missing = this.#heard && this.#options.changes.feed.after(this.#heard)
    const [oldest] = missing ?? []
    const lagMs = oldest ? Math.max(0, this.#options.clock.wallMs() - oldest.change.atMs) : 0
    return { ...this.#known, changesBehind: missing?.length, lagMs: missing && lagMs }
  }

  close(): void {
    this.#connection.close()
  }

  #onClose(): void {
    this.#greeting.cancel()
    this.#stream?.end()
    for (const controller of this.#inFlight.values()) controller.abort()
    this.#inFlight.clear()
    this.#callers.clear()
    this.#options.onClose()
  }

  #onMessage({ term, proof, from, heard, callers = [], calls = [], cancels = [] }: PeerMessage): void {
    if (!this.#known) {
      if (!from || !isProof(proof, this.#options.proof)) return this.close()
      const [replica, address] = from
      this.#known = { replica, address, sinceMs: this.#options.clock.wallMs() }
      this.#greeting.cancel()
      this.#connection.trust()
      this.#options.onKnown()
    }
    if (heard !== undefined) this.#heard = positionFrom(heard)
    const { terms } = this.#options
    terms.observe(term)
    for (const [id, subject, lane] of callers) this.#callers.set(id, { subject, lane: lane || subject })
    for (const call of calls) {
      // Do not queue this call: however busy this replica is, the follower must not miss changes.
      if (call[1] === 'follow')
        this.#ifActive(term, call[0], (activeReplica) => void this.#follow(activeReplica, call[0], call[2]))
      else this.#take(term, call)
    }
    for (const id of cancels) this.#inFlight.get(id)?.abort()
    if (this.#connection.unsentBytes > maxUnreadBytes) this.close()
  }

  /** Runs the call, or answers that the call is not meant for this replica. */
  #ifActive(term: number, id: number, run: (activeReplica: LocalReplica) => void): void {
    const activeReplica = this.#options.activeReplicas.now()
    // A lower term means that the call was meant for the previous active replica. A higher one means that another
    // replica is active, so this one stops being active.
    if (activeReplica.kind === 'local' && term === activeReplica.term) run(activeReplica)
    else this.#answer(id, ended.notActive, 'null')
  }

  /** Begins a call now, or when it is its caller's turn among all callers of the active replica. */
  #take(term: number, call: PeerCall): void {
    const { clock, fairQueue } = this.#options
    const [id, , , deadlineMs] = call
    const caller = this.#callers.get(id)
    this.#callers.delete(id)
    if (this.#inFlight.size >= maxInFlight) return this.#fail(id, tooMany())
    const controller = new AbortController()
    this.#inFlight.set(id, controller)
    const untilMs = clock.monotonicMs() + deadlineMs
    const begin = () => {
      // The follower has disconnected.
      if (this.#inFlight.get(id) !== controller) return
      let answering: Promise<void> | undefined
      // Without this check, a campaign could win a term after its caller has stopped waiting.
      if (clock.monotonicMs() <= untilMs && !controller.signal.aborted) {
        this.#ifActive(term, id, (activeReplica) => {
          answering = this.#run(activeReplica, call, { caller, controller, untilMs })
        })
      } else this.#answer(id, ended.notActive, 'null')
      if (!answering) this.#inFlight.delete(id)
    }
    if (fairQueue.run(caller?.lane ?? this.#ownLane, begin)) return
    this.#inFlight.delete(id)
    this.#fail(id, tooMany())
  }

  /** Returns undefined if it answers synchronously. */
  #run(
    activeReplica: LocalReplica,
    [id, name, args]: PeerCall,
    { caller, controller, untilMs }: RunningCall,
  ): Promise<void> | undefined {
    if (name === 'replicas') {
      this.#done(id, this.#options.replicas())
      return undefined
    }
    const runner = parseCall(name, args)
    if (!runner) {
      const message = `The active replica does not know this call: ${name.slice(0, 32)}. Do all replicas run the same version?`
      this.#fail(id, new ServiceError('BACKEND_UNAVAILABLE', message))
      return undefined
    }
    try {
      const bytes = caller ? runner.bytesOf(activeReplica.groups) : 0
      if (caller && bytes > bytesPerRequest)
        this.#options.budget.work(caller.subject, Math.ceil(bytes / bytesPerRequest))
      const answer = runner.run(activeReplica.groups, controller.signal, caller)
      if (answer instanceof Promise) return this.#later(activeReplica, id, answer, { controller, untilMs })
      this.#done(id, answer)
    } catch (error) {
      this.#failAt(activeReplica, id, error)
    }
    return undefined
  }

  async #later(
    activeReplica: ActiveReplica,
    id: number,
    answer: Promise<unknown>,
    { controller, untilMs }: Pick<RunningCall, 'controller' | 'untilMs'>,
  ): Promise<void> {
    const { clock } = this.#options
    const leftMs = Math.max(0, untilMs - clock.monotonicMs())
    const timer = clock.setTimer(leftMs, () => controller.abort(), { background: true })
    try {
      this.#done(id, await answer)
    } catch (error) {
      this.#failAt(activeReplica, id, error)
    } finally {
      timer.cancel()
      this.#inFlight.delete(id)
    }
  }

  async #follow(activeReplica: ActiveReplica, id: number, [after, renewals]: readonly unknown[]): Promise<void> {
    const position = typeof after === 'string' ? positionFrom(after) : undefined
    if (!position) return this.#fail(id, new ServiceError('INVALID_REQUEST', 'The position is not valid.'))
    if (
      !(await this.#options.changes.whenFrom(activeReplica)) ||
      activeReplica.kind !== 'local' ||
      this.#connection.isClosed
    ) {
      return this.#answer(id, ended.notActive, 'null')
    }
    this.#heard = position
    this.#stream?.end()
    this.#stream = new PeerStream(this.#connection, {
      ...this.#options,
      groups: activeReplica.groups,
      renewals: renewals === true,
    })
    this.#done(id, undefined)
    await this.#stream.begin(position)
  }

  #done(id: number, answer: unknown): void {
    const json = answer === undefined ? 'null' : JSON.stringify(answer)
    const isTooLarge = json.length > maxMessageBytes / 4 && Buffer.byteLength(json) > maxMessageBytes / 2
    if (isTooLarge) this.#fail(id, new ServiceError('TOO_LARGE', 'The answer is too large to be forwarded.'))
    else this.#answer(id, ended.done, json)
  }

  /**
   * A failure because this replica is no longer active is not an answer. Closing the connection makes the follower
   * repeat the call on the next active replica.
   */
  #failAt(activeReplica: ActiveReplica, id: number, error: unknown): void {
    const isOver = !isSameActiveTerm(this.#options.activeReplicas.now(), activeReplica)
    if (isOver && error instanceof ServiceError && error.code === 'BACKEND_UNAVAILABLE') this.close()
    else this.#fail(id, error)
  }

  #fail(id: number, error: unknown): void {
    const known =
      error instanceof ServiceError
        ? error
        : new ServiceError('BACKEND_UNAVAILABLE', 'The service failed to process this request.', { cause: error })
    const { code, message, status, details } = known
    this.#answer(id, ended.failed, JSON.stringify({ code, message, status, details }))
  }

  #answer(id: number, how: number, json: string): void {
    this.#connection.queue('answers', `[${id},${how},${json}]`)
  }
}

function tooMany(): ServiceError {
  return new ServiceError('RATE_LIMITED', 'Too many calls at once.', { details: { retry_after_ms: soonMs } })
}
