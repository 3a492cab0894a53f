/** One event of a stream. */
export interface ServerEvent {
  /** Where to go on after it; undefined if it has no place of its own. */
  readonly id: string | undefined
  readonly data: string
}

/** Server-Sent Events out of lines. Names of events and times to wait are passed over: nothing here uses them. */
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
