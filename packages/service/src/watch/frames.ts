import type { WatchedEvent } from '../schemas/watch.ts'

const data = 'data: '

/**
 * A part of a stream, both as a plain body and as an HTTP chunk. Streams are sent in chunks, because some clients
 * deliver an unchunked body only when their buffer is full.
 */
export interface Frame {
  readonly body: Buffer
  readonly chunk: Buffer
}

export function frameOfText(text: string): Frame {
  const head = `${Buffer.byteLength(text).toString(16)}\r\n`
  const chunk = Buffer.from(`${head}${text}\r\n`)
  return { chunk, body: chunk.subarray(head.length, -2) }
}

/** Returns one event of a stream. It has no event name, so that it reaches the browser's `onmessage`. */
export function frameOf(event: WatchedEvent, cursor?: string): Frame {
  return frameOfJson(JSON.stringify(event), cursor)
}

/** The same for an event that is already in JSON form. */
export function frameOfJson(json: string, cursor?: string): Frame {
  const id = cursor === undefined ? '' : `id: ${cursor}\n`
  return frameOfText(`${id}${data}${json}\n\n`)
}

/** Returns the event of a frame as JSON. */
export function jsonOf({ body }: Frame): string {
  return body.toString('utf8', body.indexOf(data) + data.length, body.length - 2)
}
