import type { IncomingMessage } from 'node:http'
import { isObject } from '@tenure/internal/objects'

/** The size limit of an answer, and of a line of a watch. */
export const longestBytes = 4 * 2 ** 20

/** An answer that exceeds the size limit and is not read to its end. */
export class AnswerTooLong extends Error {}

/** Whether a call failed because its answer was too long to read. The caller can ask for less. */
export function isAnswerTooLong(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof AnswerTooLong) return true
  return false
}

/** A malformed response. The message says why. */
export class MalformedResponse extends Error {}

/** The whole body of an answer as text. Uses events, which are cheaper than an iterator. */
export function textOf(response: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    let isWhole = false
    const end = () => {
      if (isWhole) resolve(Buffer.concat(chunks).toString())
      else reject(new Error('the answer was cut off'))
    }
    if (response.destroyed) return end()
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > longestBytes) response.destroy(new AnswerTooLong(`the answer is longer than ${longestBytes} bytes`))
      else chunks.push(chunk)
    })
    response.on('error', reject)
    response.on('end', () => {
      isWhole = response.complete
      end()
    })
    response.on('close', () => {
      if (!isWhole) end()
    })
  })
}

/** The body of an endless answer, line by line. Text after the last line break is not a line. */
export async function* linesOf(response: IncomingMessage): AsyncGenerator<string, void, undefined> {
  response.setEncoding('utf8')
  let rest = ''
  for await (const chunk of response as AsyncIterable<string>) {
    const [first = '', ...more] = chunk.split('\n')
    rest += first
    if (rest.length > longestBytes) throw new Error('a line of the watch exceeds the size limit')
    for (const next of more) {
      yield rest
      rest = next
    }
  }
}

/** Parses a JSON object. Undefined if the text is not one. */
export function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
