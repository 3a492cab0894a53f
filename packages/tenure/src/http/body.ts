import type { IncomingMessage } from 'node:http'

const longestBytes = 4 * 2 ** 20

/** The whole body of an answer, as text. */
export async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > longestBytes) throw new Error(`the answer has more than ${longestBytes} bytes`)
    chunks.push(chunk)
  }
  if (!response.complete) throw new Error('the answer was cut off')
  return Buffer.concat(chunks).toString()
}

/** The body of an answer without end, line by line. What stands after the last line break is no line. */
export async function* linesOf(response: IncomingMessage): AsyncGenerator<string, void, undefined> {
  response.setEncoding('utf8')
  let rest = ''
  for await (const chunk of response as AsyncIterable<string>) {
    const [first = '', ...more] = chunk.split('\n')
    rest += first
    if (rest.length > longestBytes) throw new Error('a line of the watch is too long')
    for (const next of more) {
      yield rest
      rest = next
    }
  }
}

/** Any JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A text as a JSON object; undefined if it is none. */
export function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
