import type { WatchedEvent } from '../http/schemas/watch.ts'

const data = 'data: '

/**
 * A part of a stream, plain and as a chunk of HTTP. In chunks, because some clients pass on a body without chunks only
 * when their buffer is full.
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

/** One event of a stream. Without a name, so that it reaches the browser's `onmessage`. */
export function frameOf(event: WatchedEvent, cursor?: string): Frame {
  return frameOfJson(JSON.stringify(event), cursor)
}

/** The same for an event that is JSON already. */
export function frameOfJson(json: string, cursor?: string): Frame {
  const id = cursor === undefined ? '' : `id: ${cursor}\n`
  return frameOfText(`${id}${data}${json}\n\n`)
}

/** The event alone, as JSON. */
export function jsonOf({ body }: Frame): string {
  return body.toString('utf8', body.indexOf(data) + data.length, body.length - 2)
}
