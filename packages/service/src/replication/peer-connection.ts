import type { Socket } from 'node:net'
import { Type, type Static } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Clock, Timer } from 'tenure'
import { nextTurn } from '../common/clock.ts'
import type { Caller } from '../groups/port.ts'
import { positionLength } from '../storage/position.ts'

/** Everything that one side sends within one turn of the event loop, in one message. */
const PeerMessage = Type.Object({
  /** The highest term of an active replica that the sender knows. */
  term: Type.Integer({ minimum: 0 }),
  proof: Type.Optional(Type.String()),
  /** Sent with the proof: the name and address of the replica that connected, for operators. */
  from: Type.Optional(Type.Tuple([Type.String({ maxLength: 512 }), Type.String({ maxLength: 512 })])),
  /** Id, verb, arguments, and how long the caller waits, in ms. */
  calls: Type.Optional(
    Type.Array(Type.Tuple([Type.Integer(), Type.String(), Type.Array(Type.Unknown()), Type.Number()])),
  ),
  /**
   * Sent before or with the calls: for each call its id, the subject that is charged, and the lane, which is empty if
   * it equals the subject. A replica sends none for the calls that it makes for itself.
   */
  callers: Type.Optional(Type.Array(Type.Tuple([Type.Integer(), Type.String(), Type.String()]))),
  /** Calls whose caller has disconnected. */
  cancels: Type.Optional(Type.Array(Type.Integer())),
  /** The id of the call, how it ended, and the answer. */
  answers: Type.Optional(Type.Array(Type.Tuple([Type.Integer(), Type.Integer(), Type.Unknown()]))),
  /** Changes of groups, in order. */
  told: Type.Optional(Type.Array(Type.Unknown())),
  /** The sender knows all changes up to this position. */
  heard: Type.Optional(Type.String({ maxLength: positionLength })),
})
export type PeerMessage = Static<typeof PeerMessage>
const isMessage = TypeCompiler.Compile(PeerMessage)

/** Parts of a message. Each item is JSON. */
export type Part = (typeof parts)[number]
/** In the order in which they are sent: a call comes after its caller, and before its cancellation. */
const parts = ['callers', 'calls', 'answers', 'told', 'cancels'] as const

/** How a call ended. */
export const ended = { done: 0, failed: 1, notActive: 2 } as const

/** The size limit of a message. */
export const maxMessageBytes = 16 * 2 ** 20
/** Larger messages are split, so that no message keeps the other side busy for long. */
const pieceBytes = 2 ** 16
/** How long messages are processed before other callbacks may run. */
const readMs = 2
const headBytes = 4
const greetingBytes = 4_096
const pingMs = 1_000
/** How long a connection may be silent before it is closed: the other side has disappeared or stalled. */
const peerTimeoutMs = 3_000

export interface PeerConnectionOptions {
  readonly clock: Clock
  term(): number
  onMessage(message: PeerMessage): void
  /** Called once. */
  onClose(): void
  onDrain?(): void
}

/**
 * Messages over a connection: a length, then JSON. Everything queued in one turn is sent together. Both sides send
 * something every second. If nothing arrives for three seconds, the connection is closed.
 */
export class PeerConnection {
  readonly #socket: Socket
  readonly #options: PeerConnectionOptions
  readonly #queue = new Map<Part, string[]>()
  #isFlushing = false
  #chunks: Buffer[] = []
  #have = 0
  #need = headBytes
  #maxBytes = greetingBytes
  #heardAtMs: number
  #tickedAtMs: number
  #hasSent = false
  /** Whether data that has arrived is waiting for the next turn. */
  #isHeld = false
  #tick: Timer | undefined
  #isClosed = false

  constructor(socket: Socket, early: Buffer, options: PeerConnectionOptions) {
    const { clock } = options
    this.#socket = socket
    this.#options = options
    this.#heardAtMs = clock.monotonicMs()
    this.#tickedAtMs = this.#heardAtMs
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.once('close', () => this.close())
    // Node's servers keep a connection open after the other side has ended it.
    socket.once('end', () => this.close())
    socket.on('drain', () => options.onDrain?.())
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    this.#tickLater()
    if (early.length > 0) socket.unshift(early)
    if (socket.destroyed) void nextTurn().then(() => this.close())
  }

  /** Called once the other side has authenticated: from now on it may send more than a greeting. */
  trust(): void {
    this.#maxBytes = maxMessageBytes
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /**
   * Bytes queued in this process because the socket does not accept them yet. The number grows when the other side does
   * not read.
   */
  get unsentBytes(): number {
    return this.#socket.writableLength
  }

  /** Queues a call. The caller's entry is sent before it. */
  call(id: number, json: string, caller: Caller | undefined): void {
    if (caller) this.queue('callers', JSON.stringify([id, caller.subject, caller.lane ?? '']))
    this.queue('calls', json)
  }

  /** Queues a part. It is sent with everything else that is queued in this turn. */
  queue(part: Part, json: string): void {
    if (this.#isClosed) return
    const queued = this.#queue.get(part)
    if (queued) queued.push(json)
    else this.#queue.set(part, [json])
    if (this.#isFlushing) return
    this.#isFlushing = true
    void nextTurn().then(() => this.#flush())
  }

  /** Sends a message now. */
  send(fields = ''): void {
    if (this.#isClosed) return
    const json = `{"term":${this.#options.term()}${fields}}`
    const length = Buffer.byteLength(json)
    const frame = Buffer.allocUnsafe(headBytes + length)
    frame.writeUInt32BE(length)
    frame.write(json, headBytes)
    this.#hasSent = true
    this.#socket.write(frame)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#tick?.cancel()
    this.#queue.clear()
    this.#socket.destroy()
    this.#options.onClose()
  }

  #flush(): void {
    this.#isFlushing = false
    if (this.#isClosed) return
    let fields = ''
    for (const part of parts) {
      const items = this.#queue.get(part) ?? []
      let piece: string[] = []
      let length = 0
      for (const item of items) {
        piece.push(item)
        length += item.length
        if (fields.length + length < pieceBytes) continue
        this.send(`${fields},"${part}":[${piece.join()}]`)
        fields = ''
        piece = []
        length = 0
      }
      if (piece.length > 0) fields += `,"${part}":[${piece.join()}]`
    }
    this.#queue.clear()
    if (fields !== '') this.send(fields)
  }

  #receive(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#have += chunk.length
    if (!this.#isHeld) this.#read()
  }

  /**
   * Processes the data that has arrived. Data that does not fit into this turn is processed in the next one, and
   * nothing more is read until then.
   */
  #read(): void {
    const { clock } = this.#options
    const startMs = clock.monotonicMs()
    this.#heardAtMs = startMs
    if (this.#have < this.#need) return
    const bytes = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks)
    let at = 0
    let isLate = false
    this.#need = headBytes
    while (bytes.length - at >= headBytes && !isLate) {
      const length = bytes.readUInt32BE(at)
      if (length > this.#maxBytes) return this.close()
      if (bytes.length - at < headBytes + length) {
        this.#need = headBytes + length
        break
      }
      const message = messageOf(bytes.toString('utf8', at + headBytes, at + headBytes + length))
      if (!message) return this.close()
      at += headBytes + length
      this.#options.onMessage(message)
      if (this.#isClosed) return
      isLate = clock.monotonicMs() - startMs >= readMs
    }
    const rest = bytes.subarray(at)
    this.#chunks = rest.length > 0 ? [rest] : []
    this.#have = rest.length
    if (isLate && rest.length >= headBytes) this.#readLater()
  }

  #readLater(): void {
    this.#isHeld = true
    this.#socket.pause()
    void nextTurn().then(() => {
      this.#isHeld = false
      if (this.#isClosed) return
      this.#read()
      if (!this.#isHeld) this.#socket.resume()
    })
  }

  #tickLater(): void {
    this.#tick = this.#options.clock.setTimer(pingMs, () => this.#onTick(), { background: true })
  }

  #onTick(): void {
    const nowMs = this.#options.clock.monotonicMs()
    // If this process itself was stalled, the data that arrived meanwhile is still unread.
    const stoodStill = nowMs - this.#tickedAtMs > 2 * pingMs
    this.#tickedAtMs = nowMs
    if (stoodStill) this.#heardAtMs = nowMs
    if (nowMs - this.#heardAtMs >= peerTimeoutMs) return this.close()
    if (!this.#hasSent) this.send()
    this.#hasSent = false
    this.#tickLater()
  }
}

function messageOf(json: string): PeerMessage | undefined {
  try {
    const message: unknown = JSON.parse(json)
    return isMessage.Check(message) ? message : undefined
  } catch {
    return undefined
  }
}
