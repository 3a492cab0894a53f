/**
 * Parses Server-Sent Events from chunks of text. The page does this itself because `EventSource` cannot send a token.
 */
export class EventLines {
  #rest = ''
  #data: string[] = []

  /** Takes a chunk and returns the data of all events that are now complete. */
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
