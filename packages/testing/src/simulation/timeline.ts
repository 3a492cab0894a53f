/** The most recent events of a run, for diagnosing a failure. */
export class Timeline {
  readonly #lines: (readonly [atMs: number, who: string, what: string])[] = []
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  add(atMs: number, who: string, what: string): void {
    this.#lines.push([atMs, who, what])
    if (this.#lines.length > 2 * this.#limit) this.#lines.splice(0, this.#limit)
  }

  toString(): string {
    return this.#lines
      .slice(-this.#limit)
      .map(([atMs, who, what]) => `${(atMs / 1000).toFixed(3).padStart(11)} s  ${who.padEnd(7)} ${what}`)
      .join('\n')
  }
}
