import { createCipheriv, createDecipheriv } from 'node:crypto'
import { secret } from '@tenure/internal/clock'

const ivBytes = 12
const tagBytes = 16

/**
 * Seals text that its bearer may not see, such as the place where a page ended. Only the process that sealed it can
 * open it.
 */
export class Seal {
  readonly #key = secret(32)
  readonly #paddedLength: number

  /** All seals have the same length, whatever is in them: `paddedLength` is that of the longest text. */
  constructor(paddedLength: number) {
    this.#paddedLength = paddedLength
  }

  close(name: string): string {
    const iv = secret(ivBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv)
    const text = Buffer.concat([cipher.update(name.padEnd(this.#paddedLength)), cipher.final()])
    return Buffer.concat([iv, text, cipher.getAuthTag()]).toString('base64url')
  }

  /** Undefined if it was not sealed here. */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, 'base64url')
    if (bytes.length < ivBytes + tagBytes) return undefined
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, ivBytes))
    decipher.setAuthTag(bytes.subarray(-tagBytes))
    try {
      const text = Buffer.concat([decipher.update(bytes.subarray(ivBytes, -tagBytes)), decipher.final()])
      return text.toString().trimEnd()
    } catch {
      return undefined
    }
  }
}
