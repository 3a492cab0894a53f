import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from 'tenure'
import type { Identity } from '../auth/access.ts'
import type { Position } from '../storage/position.ts'
import type { Entry } from './feed.ts'
import { frameOf, frameOfText, type Frame } from './frames.ts'
import type { Hub, Subscriber } from './hub.ts'
import type { Snapshot } from './snapshot.ts'
import type { Endless } from './streams.ts'

const heartbeatMs = 15_000
/** How much may be unread before nothing more is sent until the reader has read it. */
const waitingBytes = 64 * 1024
const pieceBytes = 16 * 1024
const lastWordMs = 5_000

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
  /** How long the reader may take to read what is unread. */
  readonly patienceMs: number
  /** What the feed cannot tell. */
  missedSince(position: Position): Promise<Snapshot>
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
  #leave: (() => void) | undefined
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

  /** Writes until the reader has gone, or was dropped. */
  async run(start: Snapshot): Promise<void> {
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
    if (!(await this.#writeAll(this.#framesOf(start)))) return
    const wanted = new Set(groups)
    let { position } = start
    while (!this.#ended) {
      const entries = hub.feed.after(position)
      if (!entries) {
        if (!hub.feed.isBefore(position)) return this.#drop()
        const missed = await this.#options.missedSince(position).catch(() => undefined)
        // It comes back with its cursor, and finds somebody who knows.
        if (!missed) return this.end()
        if (!(await this.#writeAll(this.#framesOf(missed)))) return
        position = missed.position
      } else if (entries.length === 0) {
        // Without a pause in between: a change during a pause would be lost.
        position = await this.#live()
        if (this.#ended || (this.#raw.writableLength > waitingBytes && !(await this.#drained()))) return
      } else {
        position = hub.feed.position
        const missed = entries.filter(({ change }) => wanted.has(change.groupId))
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
    if (!this.#leave || clock.monotonicMs() - this.#writtenAtMs < this.#heartbeatMs) return
    // It has got everything up to here. A reader whose groups are quiet must not find its cursor too old.
    this.#write(frameOfText(`: still here\nid: ${hub.feed.cursorAt(hub.feed.position)}\n\n`))
  }

  /** Only the last one has an id: a reader that is cut off before it gets all of them again. */
  *#framesOf({ events, position }: Snapshot): Iterable<Frame> {
    const cursor = this.#options.hub.feed.cursorAt(position)
    for (const [index, event] of events.entries()) {
      yield frameOf(event(), index === events.length - 1 ? cursor : undefined)
    }
  }

  /** Each is made when it is sent: making thousands at once would keep all others waiting. */
  *#missedFrames(entries: readonly Entry[]): Iterable<Frame> {
    for (const entry of entries) yield this.#options.hub.frameOf(entry)
  }

  /** Lasts until the reader has fallen behind or gone, or missed something. Resolves to the position up to which it has all. */
  #live(): Promise<Position> {
    const { hub, groups } = this.#options
    return new Promise((resolve) => {
      this.#leave = hub.subscribe(groups, this)
      this.#wake = () => {
        this.#leave?.()
        this.#leave = undefined
        this.#wake = undefined
        resolve(this.#missed ?? hub.feed.position)
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

  #pause(): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.setTimer(0, resolve))
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
    this.#leave?.()
    this.#wake?.()
  }
}
