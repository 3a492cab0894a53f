import { write } from 'node:fs'
import { wallMs } from '../shared/clock.ts'
import { jsonText, printable } from '../shared/output.ts'

/** What a message is about, for programs that read JSON. */
export interface MessageFields {
  readonly type: 'message' | 'gained' | 'revoked' | 'lost' | 'exited'
  readonly [field: string]: string | number | null
}

/**
 * Writes lines to standard error in order, without blocking. It does not use `process.stderr`, which would make the
 * descriptor non-blocking for the command as well. It does not write synchronously either, because a slow reader would
 * then delay the renewal of the lease.
 */
export class Messages {
  readonly #isJson: boolean
  #lines: string[] = []
  #isWriting = false
  #idle: (() => void)[] = []

  /** `isJson`: write each message as a JSON object, with its fields. */
  constructor({ isJson = false }: { readonly isJson?: boolean } = {}) {
    this.#isJson = isJson
  }

  readonly tell = (text: string, fields: MessageFields = { type: 'message' }): void => {
    // If the reader stalls, keep the first lines and drop the rest.
    if (this.#lines.length < 1_000) this.#lines.push(...this.#linesOf(text, fields))
    this.#next()
  }

  #linesOf(text: string, fields: MessageFields): string[] {
    if (!this.#isJson) return text.split('\n').map((line) => `tenure: ${printable(line)}\n`)
    const time = new Date(wallMs()).toISOString()
    return [`${jsonText({ time, ...fields, message: text })}\n`]
  }

  /** Resolves when everything has been written. */
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
      // On an error the reader is probably gone, so the rest is dropped.
      if (!error && written < rest.length) return this.#write(rest.subarray(written))
      this.#isWriting = false
      this.#next()
    })
  }
}
