/** One event of a stream. */
export interface ServerEvent {
  /** The position after this event, from which to resume. Undefined if the event has no position. */
  readonly id: string | undefined
  readonly data: string
}

/** Parses Server-Sent Events from lines. Ignores event names and retry times, which nothing here uses. */
export async function* eventsOf(lines: AsyncIterable<string>): AsyncGenerator<ServerEvent, void, undefined> {
  let id: string | undefined
  let data: string[] = []
  for await (const raw of lines) {
    const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw
    if (line !== '') {
      const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/su.exec(line) ?? []
      if (field === 'data') data.push(value)
      if (field === 'id') id = value
      continue
    }
    if (data.length > 0) yield { id, data: data.join('\n') }
    id = undefined
    data = []
  }
}
