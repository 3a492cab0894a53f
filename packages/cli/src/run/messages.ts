import { write } from 'node:fs'
import { printable } from '../shared/output.ts'

/**
 * Writes lines to standard error, one after another and without waiting for them. Not by `process.stderr`: that makes
 * the descriptor non-blocking, even for the command, which shares it. And not synchronously: the reader may be slow, and
 * the lease must be renewed meanwhile.
 */
export class Messages {
  #lines: string[] = []
  #isWriting = false
  #idle: (() => void)[] = []

  readonly tell = (text: string): void => {
    // A reader that has stopped reading gets the first lines.
    if (this.#lines.length < 1_000) this.#lines.push(...text.split('\n').map((line) => `tenure: ${printable(line)}\n`))
    this.#next()
  }

  /** Resolves when everything was written. */
  async flush(): Promise<void> {
    if (this.#isWriting) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  #next(): void {
    if (this.#isWriting) return
    const text = this.#lines.splice(0).join('')
    if (text === '') {
      for (const resolve of this.#idle.splice(0)) resolve()
      return
    }
    this.#isWriting = true
    this.#write(Buffer.from(text))
  }

  #write(rest: Buffer): void {
    write(2, rest, (error, written) => {
      // The reader may be gone, and then nobody misses it.
      if (!error && written < rest.length) return this.#write(rest.subarray(written))
      this.#isWriting = false
      this.#next()
    })
  }
}
