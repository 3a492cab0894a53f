import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from 'tenure'
import type { Beginning } from './beginning.ts'
import type { Change, Entry } from './feed.ts'
import { frameOf, type Hub, type Subscriber } from './hub.ts'
import type { Endless } from './streams.ts'

const heartbeatMs = 15_000
/** What may wait for a reader before it is sent nothing more until it has read that. */
const waitingBytes = 256 * 1024
const pieceBytes = 16 * 1024
const lastWordMs = 5_000

/** What a stream works with. */
export interface EventStreamOptions {
  readonly raw: ServerResponse
  readonly socket: Socket
  /** Of every answer. */
  readonly headers: OutgoingHttpHeaders
  readonly hub: Hub
  readonly clock: Clock
  readonly groups: readonly string[]
  readonly renewals: boolean
  /** When the reader's right to read ends, in Unix milliseconds. */
  readonly expiresAtMs: number | undefined
  /** How long it may take to read what waits for it. */
  readonly patienceMs: number
  onSlow(): void
}

/**
 * One reader of Server-Sent Events. While it keeps up, it is told of changes as they happen. One that does not is told
 * nothing for a while, and then goes on with the feed at its own pace: nothing is kept for it alone. If it stands
 * still, it is dropped with notice.
 */
export class EventStream implements Endless, Subscriber {
  readonly #options: EventStreamOptions
  readonly #raw: ServerResponse
  /** Not the same for all: they were told of the last change at the same time. */
  readonly #heartbeatMs: number
  #leave: (() => void) | undefined
  #wake: (() => void) | undefined
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
    // Not the answer's own event: one that stands behind another on this connection has none.
    socket.once('close', gone)
    raw.on('error', gone)
  }

  get wantsRenewals(): boolean {
    return this.#options.renewals
  }

  /** Writes until the reader has gone, or has been sent away. */
  async run(begin: Beginning | { readonly position: number }): Promise<void> {
    const { hub, groups, socket, headers } = this.#options
    if (this.#ended) return
    socket.setKeepAlive(true, heartbeatMs)
    // The end of the connection is the end of the stream, so nothing is wrapped around each event.
    this.#raw.useChunkedEncodingByDefault = false
    this.#raw.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      connection: 'close',
    })
    this.#raw.write('retry: 2000\n\n')
    if ('events' in begin && !(await this.#writeAll(this.#framesOf(begin)))) return
    const wanted = new Set(groups)
    let { position } = begin
    while (!this.#ended) {
      const entries = hub.feed.after(position)
      if (!entries) return this.#drop()
      if (entries.length === 0) {
        // Without a pause in between: what came in it would be lost.
        position = await this.#live()
        if (this.#ended || !(await this.#drained())) return
      } else {
        position = hub.feed.position
        const missed = entries.filter(({ change }) => wanted.has(change.groupId))
        if (!(await this.#writeAll(this.#missedFrames(missed)))) return
      }
    }
  }

  tell(_change: Change, frame: () => Buffer): void {
    this.#write(frame())
    if (this.#raw.writableLength > waitingBytes) this.#wake?.()
  }

  end(): void {
    // The client comes back by itself, and goes on where it was.
    this.#finish(': going away\n\n')
  }

  tick(): void {
    const { clock, hub, expiresAtMs } = this.#options
    if (expiresAtMs !== undefined && clock.wallMs() >= expiresAtMs) {
      return this.#finish(': your identity has expired\n\n')
    }
    if (!this.#leave || clock.monotonicMs() - this.#writtenAtMs < this.#heartbeatMs) return
    // It has been told everything up to here. A reader whose groups are quiet must not find its cursor too old.
    this.#write(`: still here\nid: ${hub.feed.cursorAt(hub.feed.position)}\n\n`)
  }

  /** Only the last one has an id: who goes away before it is told all of them again. */
  *#framesOf({ events, position }: Beginning): Iterable<Buffer> {
    const cursor = this.#options.hub.feed.cursorAt(position)
    for (const [index, event] of events.entries()) {
      yield frameOf(event, index === events.length - 1 ? cursor : undefined)
    }
  }

  /** Each is made when it is sent: thousands of them would keep everybody else waiting. */
  *#missedFrames(entries: readonly Entry[]): Iterable<Buffer> {
    for (const entry of entries) yield this.#options.hub.frameOf(entry)
  }

  /** Lasts until the reader has fallen behind or gone. Resolves to the position of the last thing it was sent. */
  #live(): Promise<number> {
    const { hub, groups } = this.#options
    return new Promise((resolve) => {
      this.#leave = hub.subscribe(groups, this)
      this.#wake = () => {
        this.#leave?.()
        this.#leave = undefined
        this.#wake = undefined
        resolve(hub.feed.position)
      }
    })
  }

  async #writeAll(frames: Iterable<Buffer>): Promise<boolean> {
    let piece: Buffer[] = []
    let bytes = 0
    let unbroken = 0
    for (const frame of frames) {
      piece.push(frame)
      bytes += frame.length
      if (bytes < pieceBytes) continue
      if (!this.#write(Buffer.concat(piece)) && !(await this.#drained())) return false
      unbroken += bytes
      // The kernel may take all of it at once, and others want to be answered meanwhile.
      if (unbroken >= waitingBytes) {
        await this.#pause()
        unbroken = 0
      }
      piece = []
      bytes = 0
    }
    return piece.length === 0 || this.#write(Buffer.concat(piece)) || this.#drained()
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.setTimer(0, resolve))
  }

  /** Waits until the reader has read what waits for it. False: the stream is over. */
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

  #write(data: Buffer | string): boolean {
    if (this.#ended) return false
    const { clock, socket } = this.#options
    this.#writtenAtMs = clock.monotonicMs()
    // The answer itself would only put it off to the next tick. While another stands before it, it must wait.
    return this.#raw.socket === null ? this.#raw.write(data) : socket.write(data)
  }

  #drop(): void {
    if (this.#ended) return
    this.#options.onSlow()
    this.#finish(frameOf({ type: 'TOO_SLOW', ts_ms: this.#options.clock.wallMs() }))
  }

  #finish(lastWord: Buffer | string): void {
    if (this.#ended) return
    this.#raw.end(lastWord)
    // Who does not read does not read this either.
    this.#options.clock.setTimer(lastWordMs, () => void this.#raw.destroy(), { background: true })
    this.#close()
  }

  #close(): void {
    this.#ended = true
    this.#leave?.()
    this.#wake?.()
  }
}
