import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { secret as newSecret } from '@tenure/internal/clock'

const ivBytes = 12
const tagBytes = 16
const keyBytes = 32

/**
 * The keys for one purpose, from a secret that others know too: the one that is used first. While a secret is replaced it
 * has several words, which all are accepted: see `rotateSecret`.
 */
export function keysFrom(secret: string, purpose: string): Buffer[] {
  return secret.split(' ').map((word) => Buffer.from(hkdfSync('sha256', word, '', `tenure ${purpose}`, keyBytes)))
}

/**
 * Seals text that its bearer may not see, such as the place where a page ended. Everybody who has the secret can open
 * it: the same service after a restart, and every replica.
 */
export class Seal {
  readonly #keys: readonly Buffer[]
  readonly #paddedLength: number

  /** All seals have the same length, whatever is in them: `paddedLength` is that of the longest text. */
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

  /** Undefined if it was sealed with another key. */
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
