import { createCipheriv, createDecipheriv } from 'node:crypto'
import { secret } from '../clock.ts'

const mark = '~'
const ivBytes = 12
const tagBytes = 16
/** No seal is longer than another, whatever is in it. */
const paddedLength = 128

/**
 * Seals names that whoever gets them may not see, such as the place where a page ended. Only the process that sealed
 * one can open it.
 */
export class Seal {
  readonly #key = secret(32)

  close(name: string): string {
    const iv = secret(ivBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv)
    const text = Buffer.concat([cipher.update(name.padEnd(paddedLength)), cipher.final()])
    return mark + Buffer.concat([iv, text, cipher.getAuthTag()]).toString('base64url')
  }

  /** A name that is not sealed is returned as it is; undefined if this is no seal of ours. */
  open(sealed: string): string | undefined {
    if (!sealed.startsWith(mark)) return sealed
    const bytes = Buffer.from(sealed.slice(mark.length), 'base64url')
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
