import type { Socket } from 'node:net'
import type { Timer } from 'tenure'
import { ServiceError } from '../errors.ts'
import type { MaybePromise } from '../groups/groups.ts'
import type { FollowerView, ReplicasView } from '../operation/replicas.ts'
import { positionFrom, type Position } from '../storage/position.ts'
import { ended, LinkConnection, mostMessageBytes, type Message } from './link-connection.ts'
import { isProof } from './link-proof.ts'
import type { LinkServerOptions } from './link-server.ts'
import { LinkStream } from './link-stream.ts'
import { runnerOf } from './link-verbs.ts'
import { isSamePlace, type Place } from './place.ts'

interface LinkPeerOptions extends Pick<LinkServerOptions, 'places' | 'terms' | 'clock' | 'changes'> {
  /** What the other side must send first. */
  readonly proof: string
  readonly greetingMs: number
  /** All replicas, for an operator who asks this follower. */
  replicas(): ReplicasView
  /** Called once it has proven that it belongs to this cluster. */
  onKnown(): void
  onClose(): void
}

type Call = NonNullable<Message['calls']>[number]

const mostInFlight = 50_000
/** A follower that does not read that much is cut off: it comes back, and asks again. */
const mostUnreadBytes = 64 * 2 ** 20
const soonMs = 1_000

/** A follower that is connected. Its calls end with its connection. */
export class LinkPeer {
  readonly #options: LinkPeerOptions
  readonly #connection: LinkConnection
  /** Calls under way, and what ends them. */
  readonly #inFlight = new Map<number, AbortController>()
  readonly #greeting: Timer
  /** Since when it has proven that it belongs to this cluster, and who it is. */
  #known: { readonly sinceMs: number; readonly replica: string; readonly address: string } | undefined
  /** Up to where it knows all changes. */
  #heard: Position | undefined
  #stream: LinkStream | undefined

  constructor(socket: Socket, head: Buffer, options: LinkPeerOptions) {
    const { clock, terms } = options
    this.#options = options
    this.#connection = new LinkConnection(socket, head, {
      clock,
      term: () => terms.highest,
      onMessage: (message) => this.#onMessage(message),
      onClose: () => this.#onClose(),
      onDrain: () => this.#stream?.onDrain(),
    })
    this.#greeting = clock.setTimer(options.greetingMs, () => this.close(), { background: true })
  }

  /** Undefined while nobody knows who it is. */
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
    this.#options.onClose()
  }

  #onMessage({ term, proof, from, heard, calls = [], cancels = [] }: Message): void {
    if (!this.#known) {
      if (!from || !isProof(proof, this.#options.proof)) return this.close()
      const [replica, address] = from
      this.#known = { replica, address, sinceMs: this.#options.clock.wallMs() }
      this.#greeting.cancel()
      this.#connection.trust()
      this.#options.onKnown()
    }
    if (heard !== undefined) this.#heard = positionFrom(heard)
    const { terms, places } = this.#options
    terms.saw(term)
    for (const call of calls) {
      const place = places.now()
      // Lower: it was meant for the one who was active before. Higher: somebody else is, and this replica stops.
      if (place.kind !== 'here' || term !== place.term) this.#answer(call[0], ended.notActive, 'null')
      else this.#run(place, call)
    }
    for (const id of cancels) this.#inFlight.get(id)?.abort()
    if (this.#connection.unsentBytes > mostUnreadBytes) this.close()
  }

  #run(place: Place & { readonly kind: 'here' }, [id, name, args, deadlineMs]: Call): void {
    // However busy it is: changes must not be missed for it.
    if (name === 'follow') return void this.#follow(place, id, args)
    if (this.#inFlight.size >= mostInFlight) {
      return this.#fail(
        id,
        new ServiceError('RATE_LIMITED', 'Too many calls at once.', { details: { retry_after_ms: soonMs } }),
      )
    }
    if (name === 'replicas') return this.#done(id, this.#options.replicas())
    const run = runnerOf(name, args)
    if (!run) {
      const message = `The active replica does not know this call: ${name.slice(0, 32)}. Do all run the same version?`
      return this.#fail(id, new ServiceError('BACKEND_UNAVAILABLE', message))
    }
    const controller = new AbortController()
    let answer: MaybePromise<unknown>
    try {
      answer = run(place.groups, controller.signal)
    } catch (error) {
      return this.#failAt(place, id, error)
    }
    if (answer instanceof Promise) void this.#later(place, id, answer, controller, deadlineMs)
    else this.#done(id, answer)
  }

  async #later(
    place: Place,
    id: number,
    answer: Promise<unknown>,
    controller: AbortController,
    deadlineMs: number,
  ): Promise<void> {
    this.#inFlight.set(id, controller)
    const timer = this.#options.clock.setTimer(deadlineMs, () => controller.abort(), { background: true })
    try {
      this.#done(id, await answer)
    } catch (error) {
      this.#failAt(place, id, error)
    } finally {
      timer.cancel()
      this.#inFlight.delete(id)
    }
  }

  async #follow(place: Place, id: number, [after, renewals]: readonly unknown[]): Promise<void> {
    const position = typeof after === 'string' ? positionFrom(after) : undefined
    if (!position) return this.#fail(id, new ServiceError('INVALID_REQUEST', 'This is not a position.'))
    if (!(await this.#options.changes.whenFrom(place)) || place.kind !== 'here' || this.#connection.isClosed) {
      return this.#answer(id, ended.notActive, 'null')
    }
    this.#heard = position
    this.#stream?.end()
    this.#stream = new LinkStream(this.#connection, this.#options.changes, place.groups, renewals === true)
    this.#done(id, undefined)
    await this.#stream.begin(position)
  }

  #done(id: number, answer: unknown): void {
    const json = answer === undefined ? 'null' : JSON.stringify(answer)
    const isTooLarge = json.length > mostMessageBytes / 4 && Buffer.byteLength(json) > mostMessageBytes / 2
    if (isTooLarge) this.#fail(id, new ServiceError('TOO_LARGE', 'The answer is too large to be passed on.'))
    else this.#answer(id, ended.done, json)
  }

  /** What failed because this replica is active no more is no answer: without a connection it is asked again elsewhere. */
  #failAt(place: Place, id: number, error: unknown): void {
    const isOver = !isSamePlace(this.#options.places.now(), place)
    if (isOver && error instanceof ServiceError && error.code === 'BACKEND_UNAVAILABLE') this.close()
    else this.#fail(id, error)
  }

  #fail(id: number, error: unknown): void {
    const known =
      error instanceof ServiceError
        ? error
        : new ServiceError('BACKEND_UNAVAILABLE', 'The service failed to answer.', { cause: error })
    const { code, message, status, details } = known
    this.#answer(id, ended.failed, JSON.stringify({ code, message, status, details }))
  }

  #answer(id: number, how: number, json: string): void {
    this.#connection.queue('answers', `[${id},${how},${json}]`)
  }
}
