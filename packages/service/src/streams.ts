/** Answers without end, so that a service that stops can end them. */
export class Streams {
  readonly #ends = new Set<() => void>()

  /** Returns what forgets it again. */
  add(end: () => void): () => void {
    this.#ends.add(end)
    return () => void this.#ends.delete(end)
  }

  endAll(): void {
    for (const end of this.#ends) end()
  }
}
