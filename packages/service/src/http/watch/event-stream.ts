import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from 'tenure'
import type { Identity } from '../../auth/access.ts'
import type { Position } from '../../storage/position.ts'
import type { FeedEntry } from '../../watch/feed.ts'
import { frameOf, frameOfJson, frameOfText, type Frame } from '../../watch/frames.ts'
import type { Hub, Subscriber, Subscription } from '../../watch/hub.ts'
import type { Snapshot } from '../../watch/snapshot.ts'
import type { OpenResponse } from './open-responses.ts'

const heartbeatMs = 15_000
/** How many bytes may be unread before sending pauses until the reader has read them. */
const waitingBytes = 64 * 1024
const pieceBytes = 16 * 1024
const lastWordMs = 5_000
/** The minimum wait before an exhausted budget is tried again. */
const leastWaitMs = 250

interface EventStreamOptions {
  readonly raw: ServerResponse
  readonly socket: Socket
  /** The headers of every response. */
  readonly headers: OutgoingHttpHeaders
  readonly hub: Hub
  readonly clock: Clock
  readonly groups: readonly string[]
  readonly renewals: boolean
  /** The reader. Its right to read may expire. */
  readonly identity: Identity
  /** The subject that is charged for deliveries. */
  readonly subject: string
  /**
   * Charges the subject for changes that are delivered late. Returns 0 if the subject was charged, otherwise how long
   * to wait before trying again.
   */
  charge(count: number): number
  /** How long the reader may take to read the unread bytes. */
  readonly readTimeoutMs: number
  /** Returns, in parts, the changes that the feed no longer has. */
  missedSince(position: Position): AsyncIterable<Snapshot>
  onSlow(): void
}

/**
 * One reader of Server-Sent Events. A reader that keeps up gets changes as they happen. A reader that falls behind gets
 * nothing for a while, and then continues from the feed at its own pace, so nothing is buffered for one reader alone. A
 * reader that stops reading is dropped with a TOO_SLOW event.
 */
export class EventStream implements OpenResponse, Subscriber {
  readonly #options: EventStreamOptions
  readonly #raw: ServerResponse
  /**
   * Differs between streams. Otherwise all of them would send heartbeats at the same time, because all of them got the
   * last change at the same time.
   */
  readonly #heartbeatMs: number
  #live: Subscription | undefined
  #wake: (() => void) | undefined
  /** The position after which the stream missed changes while it followed live. Undefined if it missed none. */
  #missed: Position | undefined
  #writtenAtMs: number
  #ended = false

  constructor(options: EventStreamOptions) {
    const { raw, socket, clock } = options
    this.#options = options
    this.#raw = raw
    this.#heartbeatMs = heartbeatMs * (1 - 0.3 * clock.random())
    this.#writtenAtMs = clock.monotonicMs()
    if (socket.destroyed) this.#ended = true
    const gone = () => this.#close()
    // Do not use the response's own event: a response that is queued behind another on this connection has none.
    socket.once('close', gone)
    raw.on('error', gone)
  }

  get wantsRenewals(): boolean {
    return this.#options.renewals
  }

  get subject(): string {
    return this.#options.subject
  }

  /** Writes until the reader has disconnected, or was dropped. */
  async run(start: AsyncIterable<Snapshot>): Promise<void> {
    const { hub, groups, socket, headers } = this.#options
    if (this.#ended) return
    socket.setKeepAlive(true, heartbeatMs)
    this.#raw.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      connection: 'close',
    })
    this.#raw.write('retry: 2000\n\n')
    let position = await this.#writeParts(start)
    const wanted = new Set(groups)
    while (position && !this.#ended) {
      const entries: FeedEntry[] | undefined = hub.feed.after(position)
      if (!entries) {
        if (!hub.feed.isBefore(position)) return this.#drop()
        position = await this.#writeParts(this.#options.missedSince(position))
      } else if (entries.length === 0) {
        // Subscribe without an await in between: a change during an await would be lost.
        position = await this.#follow()
        if (this.#ended || (this.#raw.writableLength > waitingBytes && !(await this.#drained()))) return
      } else {
        position = hub.feed.position
        const missed = entries.filter(({ change }) => wanted.has(change.groupId))
        if (missed.length > 0 && !(await this.#paid(missed.length))) return
        if (!(await this.#writeAll(this.#missedFrames(missed)))) return
      }
    }
  }

  notify(frame: () => Frame): void {
    this.#write(frame())
    if (this.#raw.writableLength > waitingBytes) this.#wake?.()
  }

  miss(since: Position): void {
    this.#missed = since
    this.#wake?.()
  }

  get identity(): Identity {
    return this.#options.identity
  }

  end(reason = 'going away'): void {
    // The client reconnects by itself, and resumes from its last position.
    this.#finish(frameOfText(`: ${reason}\n\n`))
  }

  tick(): void {
    const { clock, hub, identity } = this.#options
    const { expiresAtMs } = identity
    if (expiresAtMs !== undefined && clock.wallMs() >= expiresAtMs) {
      return this.#finish(frameOfText(': your identity has expired\n\n'))
    }
    if (!this.#live || clock.monotonicMs() - this.#writtenAtMs < this.#heartbeatMs) return
    // The reader has everything up to this position. Sending the position as the id keeps the cursor of a reader with
    // quiet groups from becoming too old.
    this.#write(frameOfText(`: still here\nid: ${hub.feed.cursorAt(this.#live.position)}\n\n`))
  }

  /** Returns the position up to which the reader now has everything, or undefined if the stream has ended. */
  async #writeParts(parts: AsyncIterable<Snapshot>): Promise<Position | undefined> {
    let position: Position | undefined
    try {
      for await (const part of parts) {
        if (!(await this.#writeAll(this.#framesOf(part)))) return undefined
        position = part.position
      }
    } catch {
      // The client reconnects with its cursor, and finds a replica that has the changes.
      this.end()
      return undefined
    }
    return position
  }

  /**
   * Only the last event of all parts has an id. So a reader that disconnects before that event gets all parts again.
   */
  *#framesOf({ events, position, left }: Snapshot): Iterable<Frame> {
    const cursor = left.length === 0 ? this.#options.hub.feed.cursorAt(position) : undefined
    for (const [index, json] of events.entries()) {
      yield frameOfJson(json, index === events.length - 1 ? cursor : undefined)
    }
  }

  /** Creates each frame when it is sent, because creating thousands at once would block all other requests. */
  *#missedFrames(entries: readonly FeedEntry[]): Iterable<Frame> {
    for (const entry of entries) yield this.#options.hub.frameOf(entry)
  }

  /**
   * Follows live until the reader has fallen behind, disconnected, or missed something. Resolves to the position up to
   * which the reader has everything.
   */
  #follow(): Promise<Position> {
    const { hub, groups } = this.#options
    return new Promise((resolve) => {
      const live = hub.subscribe(groups, this)
      this.#live = live
      this.#wake = () => {
        resolve(this.#missed ?? live.position)
        live.leave()
        this.#live = undefined
        this.#wake = undefined
        this.#missed = undefined
      }
    })
  }

  async #writeAll(frames: Iterable<Frame>): Promise<boolean> {
    let piece: Frame[] = []
    let bytes = 0
    let unbroken = 0
    for (const frame of frames) {
      piece.push(frame)
      bytes += frame.chunk.length
      if (bytes < pieceBytes) continue
      if (!this.#write(...piece) && !(await this.#drained())) return false
      unbroken += bytes
      // The kernel may accept everything at once, but other requests must be answered in between.
      if (unbroken >= waitingBytes) {
        await this.#pause()
        unbroken = 0
      }
      piece = []
      bytes = 0
    }
    return piece.length === 0 || this.#write(...piece) || this.#drained()
  }

  #pause(delayMs = 0): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.setTimer(delayMs, resolve))
  }

  /** Waits until the subject's budget allows this many deliveries. Resolves to false if the stream has ended. */
  async #paid(count: number): Promise<boolean> {
    const { clock, charge } = this.#options
    for (let waitMs = charge(count); waitMs > 0; waitMs = charge(count)) {
      // Jitter, because thousands of streams may wait for the same budget.
      await this.#pause(Math.max(waitMs, leastWaitMs) * (1 + clock.random()))
      if (this.#ended) return false
    }
    return true
  }

  /** Waits until the reader has read the unread bytes. Resolves to false if the stream has ended. */
  async #drained(): Promise<boolean> {
    if (this.#ended) return false
    const { clock, readTimeoutMs, socket } = this.#options
    const read = await new Promise<boolean>((resolve) => {
      const timer = clock.setTimer(readTimeoutMs, () => done(false), { background: true })
      const onDrain = () => done(true)
      const done = (drained: boolean) => {
        timer.cancel()
        this.#raw.off('drain', onDrain)
        socket.off('drain', onDrain)
        this.#wake = undefined
        resolve(drained)
      }
      this.#raw.on('drain', onDrain)
      socket.on('drain', onDrain)
      this.#wake = () => done(false)
    })
    if (!read) this.#drop()
    return read
  }

  #write(...frames: readonly Frame[]): boolean {
    if (this.#ended) return false
    const { clock, socket } = this.#options
    this.#writtenAtMs = clock.monotonicMs()
    const isBehind = this.#raw.socket === null
    // HTTP/1.0 clients do not understand chunks.
    const kind = isBehind || !this.#raw.chunkedEncoding ? 'body' : 'chunk'
    const [first] = frames
    const data = frames.length === 1 && first ? first[kind] : Buffer.concat(frames.map((frame) => frame[kind]))
    // Writing to the response would only add a delay of one tick. But a response that is queued behind another must
    // wait.
    return isBehind ? this.#raw.write(data) : socket.write(data)
  }

  #drop(): void {
    if (this.#ended) return
    this.#options.onSlow()
    this.#finish(frameOf({ type: 'TOO_SLOW', ts_ms: this.#options.clock.wallMs() }))
  }

  #finish(lastWord: Frame): void {
    if (this.#ended) return
    this.#raw.end(lastWord.body)
    // A reader that has stopped reading would not read this either.
    this.#options.clock.setTimer(lastWordMs, () => void this.#raw.destroy(), { background: true })
    this.#close()
  }

  #close(): void {
    this.#ended = true
    this.#live?.leave()
    this.#wake?.()
  }
}
