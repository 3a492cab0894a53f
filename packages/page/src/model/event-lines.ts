/** Puts Server-Sent Events together from pieces of text. `EventSource` sends no token, so the page reads them itself. */
export class EventLines {
  #rest = ''
  #data: string[] = []

  /** The data of all events that are complete. */
  take(text: string): string[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r/)
    this.#rest = lines.pop() ?? ''
    const complete: string[] = []
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length > 0) complete.push(this.#data.join('\n'))
        this.#data = []
      } else if (line.startsWith('data:')) this.#data.push(line.slice(5).replace(/^ /, ''))
    }
    return complete
  }
}
