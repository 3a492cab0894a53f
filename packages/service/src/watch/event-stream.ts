import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from 'tenure'
import type { Identity } from '../auth/access.ts'
import type { Position } from '../storage/position.ts'
import type { Entry } from './feed.ts'
import { frameOf, frameOfJson, frameOfText, type Frame } from './frames.ts'
import type { Hub, Subscriber, Subscription } from './hub.ts'
import type { Snapshot } from './snapshot.ts'
import type { Endless } from './streams.ts'

const heartbeatMs = 15_000
/** How much may be unread before nothing more is sent until the reader has read it. */
const waitingBytes = 64 * 1024
const pieceBytes = 16 * 1024
const lastWordMs = 5_000
/** Between two looks at a budget that is used up. */
const leastWaitMs = 250

interface EventStreamOptions {
  readonly raw: ServerResponse
  readonly socket: Socket
  /** Of every answer. */
  readonly headers: OutgoingHttpHeaders
  readonly hub: Hub
  readonly clock: Clock
  readonly groups: readonly string[]
  readonly renewals: boolean
  /** The reader. Its right to read may end. */
  readonly identity: Identity
  /** Who is charged for what it is told. */
  readonly subject: string
  /** Charges the subject for what the reader is told late. Gives how long to wait first; 0: it was charged. */
  charge(count: number): number
  /** How long the reader may take to read what is unread. */
  readonly patienceMs: number
  /** What the feed cannot tell, in parts. */
  missedSince(position: Position): AsyncIterable<Snapshot>
  onSlow(): void
}

/**
 * One reader of Server-Sent Events. While it keeps up, it gets changes as they happen. When it falls behind, it gets
 * nothing for a while, and then continues from the feed at its own pace: nothing is kept for it alone. If it stops
 * reading, it is dropped with notice.
 */
export class EventStream implements Endless, Subscriber {
  readonly #options: EventStreamOptions
  readonly #raw: ServerResponse
  /** Different for each stream, since all got the last change at the same time. */
  readonly #heartbeatMs: number
  #live: Subscription | undefined
  #wake: (() => void) | undefined
  /** Where something was missed while all was told live. */
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
    // Not the answer's own event: an answer that is queued behind another on this connection has none.
    socket.once('close', gone)
    raw.on('error', gone)
  }

  get wantsRenewals(): boolean {
    return this.#options.renewals
  }

  get subject(): string {
    return this.#options.subject
  }

  /** Writes until the reader has gone, or was dropped. */
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
      const entries: Entry[] | undefined = hub.feed.after(position)
      if (!entries) {
        if (!hub.feed.isBefore(position)) return this.#drop()
        position = await this.#writeParts(this.#options.missedSince(position))
      } else if (entries.length === 0) {
        // Without a pause in between: a change during a pause would be lost.
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
    // The client comes back by itself, and resumes where it was.
    this.#finish(frameOfText(`: ${reason}\n\n`))
  }

  tick(): void {
    const { clock, hub, identity } = this.#options
    const { expiresAtMs } = identity
    if (expiresAtMs !== undefined && clock.wallMs() >= expiresAtMs) {
      return this.#finish(frameOfText(': your identity has expired\n\n'))
    }
    if (!this.#live || clock.monotonicMs() - this.#writtenAtMs < this.#heartbeatMs) return
    // It has got everything up to here. A reader whose groups are quiet must not find its cursor too old.
    this.#write(frameOfText(`: still here\nid: ${hub.feed.cursorAt(this.#live.position)}\n\n`))
  }

  /** Gives the position up to which the reader has everything then. Undefined: the stream is over. */
  async #writeParts(parts: AsyncIterable<Snapshot>): Promise<Position | undefined> {
    let position: Position | undefined
    try {
      for await (const part of parts) {
        if (!(await this.#writeAll(this.#framesOf(part)))) return undefined
        position = part.position
      }
    } catch {
      // It comes back with its cursor, and finds somebody who knows.
      this.end()
      return undefined
    }
    return position
  }

  /** Only the last one of all has an id: a reader that is cut off before it gets all of them again. */
  *#framesOf({ events, position, left }: Snapshot): Iterable<Frame> {
    const cursor = left.length === 0 ? this.#options.hub.feed.cursorAt(position) : undefined
    for (const [index, json] of events.entries()) {
      yield frameOfJson(json, index === events.length - 1 ? cursor : undefined)
    }
  }

  /** Each is made when it is sent: making thousands at once would keep all others waiting. */
  *#missedFrames(entries: readonly Entry[]): Iterable<Frame> {
    for (const entry of entries) yield this.#options.hub.frameOf(entry)
  }

  /** Lasts until the reader has fallen behind or gone, or missed something. Resolves to the position up to which it has all. */
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
      // The kernel may accept all of it at once, and others are to be answered in between.
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

  /** Waits until the subject may be told this much. False: the stream is over. */
  async #paid(count: number): Promise<boolean> {
    const { clock, charge } = this.#options
    for (let waitMs = charge(count); waitMs > 0; waitMs = charge(count)) {
      // Thousands of streams may wait for the same budget.
      await this.#pause(Math.max(waitMs, leastWaitMs) * (1 + clock.random()))
      if (this.#ended) return false
    }
    return true
  }

  /** Waits until the reader has read what is unread. False: the stream is over. */
  async #drained(): Promise<boolean> {
    if (this.#ended) return false
    const { clock, patienceMs, socket } = this.#options
    const read = await new Promise<boolean>((resolve) => {
      const timer = clock.setTimer(patienceMs, () => done(false), { background: true })
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
    // Clients of HTTP/1.0 do not understand chunks.
    const kind = isBehind || !this.#raw.chunkedEncoding ? 'body' : 'chunk'
    const [first] = frames
    const data = frames.length === 1 && first ? first[kind] : Buffer.concat(frames.map((frame) => frame[kind]))
    // Writing to the answer itself would only delay it to the next tick. Behind another answer it must wait.
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
    // A reader that has stopped does not read this either.
    this.#options.clock.setTimer(lastWordMs, () => void this.#raw.destroy(), { background: true })
    this.#close()
  }

  #close(): void {
    this.#ended = true
    this.#live?.leave()
    this.#wake?.()
  }
}
