import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { secret as newSecret } from '@tenure/internal/clock'

const ivBytes = 12
const tagBytes = 16
const keyBytes = 32

/**
 * Derives the keys for one purpose from a shared secret. The first key is the preferred one. During a rotation the
 * secret consists of several words, and the keys of all of them are accepted: see `rotateSecret`.
 */
export function deriveKeys(secret: string, purpose: string): Buffer[] {
  return secret.split(' ').map((word) => Buffer.from(hkdfSync('sha256', word, '', `tenure ${purpose}`, keyBytes)))
}

/**
 * Encrypts text that its bearer must not read, such as the position where a page ended. Everyone with the secret can
 * open it: the same service after a restart, and every replica.
 */
export class Seal {
  readonly #keys: readonly Buffer[]
  readonly #paddedLength: number

  /**
   * Pads all texts to `paddedLength`, the length of the longest one, so that the length of the sealed text reveals
   * nothing.
   */
  constructor(keys: readonly Buffer[], paddedLength: number) {
    this.#keys = keys
    this.#paddedLength = paddedLength
  }

  close(name: string): string {
    const [key] = this.#keys
    if (!key) throw new TypeError('a seal needs a key')
    const iv = newSecret(ivBytes)
    const cipher = createCipheriv('aes-256-gcm', key, iv)
    const text = Buffer.concat([cipher.update(name.padEnd(this.#paddedLength)), cipher.final()])
    return Buffer.concat([iv, text, cipher.getAuthTag()]).toString('base64url')
  }

  /** Returns undefined if the text was sealed with an unknown key. */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, 'base64url')
    if (bytes.length < ivBytes + tagBytes) return undefined
    for (const key of this.#keys) {
      const text = opened(key, bytes)
      if (text !== undefined) return text
    }
    return undefined
  }
}

function opened(key: Buffer, bytes: Buffer): string | undefined {
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivBytes))
  decipher.setAuthTag(bytes.subarray(-tagBytes))
  try {
    const text = Buffer.concat([decipher.update(bytes.subarray(ivBytes, -tagBytes)), decipher.final()])
    return text.toString().trimEnd()
  } catch {
    return undefined
  }
}
