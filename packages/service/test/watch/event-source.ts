import { request, type ClientRequest, type IncomingMessage } from 'node:http'

/** One event, as a browser would dispatch it. */
export interface Told {
  readonly id: string
  readonly data: Record<string, unknown> & { readonly type: string }
}

/** Parses Server-Sent Events according to the HTML standard. */
export class EventStreamParser {
  lastEventId = ''
  retryMs: number | undefined
  comments = 0
  #text = ''
  #data: string[] = []
  #idBuffer = ''

  /** Restores the last id, which the standard keeps across connections. */
  resume(lastEventId: string): void {
    this.lastEventId = lastEventId
    this.#idBuffer = lastEventId
  }

  parse(chunk: string): Told[] {
    this.#text += chunk
    const told: Told[] = []
    for (;;) {
      const end = /\r\n|\n|\r(?!$)/.exec(this.#text)
      if (!end) return told
      const line = this.#text.slice(0, end.index)
      this.#text = this.#text.slice(end.index + end[0].length)
      if (line !== '') this.#field(line)
      else told.push(...this.#dispatch())
    }
  }

  #field(line: string): void {
    const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? []
    if (name === '') this.comments += 1
    else if (name === 'data') this.#data.push(value)
    else if (name === 'id' && !value.includes('\0')) this.#idBuffer = value
    else if (name === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value)
  }

  #dispatch(): Told[] {
    // A block without data also sets the id.
    this.lastEventId = this.#idBuffer
    if (this.#data.length === 0) return []
    const data = JSON.parse(this.#data.join('\n')) as Told['data']
    this.#data = []
    return [{ id: this.lastEventId, data }]
  }
}

/** Does what a browser's `EventSource` does, and no more: it reconnects by itself with the last id that it saw. */
export class EventSource {
  readonly told: Told[] = []
  parser = new EventStreamParser()
  connections = 0
  readonly #url: string
  readonly #changed = new Set<() => void>()
  #request: ClientRequest | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false
  status = 0

  constructor(url: string, { lastEventId = '' } = {}) {
    this.#url = url
    this.parser.resume(lastEventId)
    this.#connect()
  }

  /** Resolves as soon as the condition holds. */
  async until(holds: (told: readonly Told[]) => boolean): Promise<void> {
    while (!holds(this.told)) {
      await new Promise<void>((resolve) => this.#changed.add(resolve))
      this.#changed.clear()
    }
  }

  /** Breaks the connection, as a failing network would. The client reconnects afterwards. */
  break(): void {
    this.#request?.destroy()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#request?.destroy()
  }

  #connect(): void {
    const { lastEventId, retryMs } = this.parser
    this.parser = new EventStreamParser()
    this.parser.resume(lastEventId)
    this.parser.retryMs = retryMs
    const headers = { accept: 'text/event-stream', ...(lastEventId !== '' && { 'last-event-id': lastEventId }) }
    this.#request = request(this.#url, { headers, agent: false }, (response) => this.#read(response))
    this.#request.on('error', () => {})
    this.#request.once('close', () => {
      if (!this.#closed) this.#timer = setTimeout(() => this.#connect(), Math.min(retryMs ?? 20, 20))
    })
    this.#request.end()
  }

  #read(response: IncomingMessage): void {
    this.status = response.statusCode ?? 0
    this.connections += 1
    const { parser } = this
    response.setEncoding('utf8')
    response.on('data', (chunk: string) => {
      // Ignore data that still arrives on an abandoned connection.
      if (parser !== this.parser) return
      this.told.push(...parser.parse(chunk))
      for (const changed of this.#changed) changed()
    })
    response.on('error', () => {})
    for (const changed of this.#changed) changed()
  }
}
