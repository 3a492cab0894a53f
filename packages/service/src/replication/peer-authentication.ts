/**
 * How two replicas authenticate each other. Both can read the storage, and so know its secret. Each proves that to the
 * other by a digest over nonces from both sides. A process that answers at an address by mistake, or listens there on
 * purpose, learns nothing.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { secret as newSecret } from '@tenure/internal/clock'
import { keysFrom } from '../auth/seal.ts'

/** Sent in the upgrade request. Replicas with a different protocol version refuse each other by it. */
export const protocol = 'tenure-link-1'
export const linkPath = '/link'
export const linkHeaders = {
  cluster: 'tenure-cluster-id',
  key: 'tenure-link-key',
  nonce: 'tenure-link-nonce',
  proof: 'tenure-link-proof',
} as const

/** A key, and the name by which the other side finds the same key among its own. */
export interface LinkKey {
  readonly name: string
  readonly key: Buffer
}

/** Returns the keys of a secret. The first one is preferred. */
export function linkKeys(secret: string): LinkKey[] {
  return keysFrom(secret, 'link').map((key) => ({ key, name: digest(key, 'name').toString('base64url').slice(0, 16) }))
}

/** What the proofs of one connection cover. */
export interface Greeting {
  readonly clusterId: string
  /** The nonce of the replica that connected. */
  readonly caller: string
  /** The nonce of the replica that was called. */
  readonly called: string
}

export const newNonce = (): string => newSecret(16).toString('base64url')

export function proofOf(side: 'caller' | 'called', key: Buffer, greeting: Greeting): string {
  return digest(key, JSON.stringify([side, greeting.clusterId, greeting.caller, greeting.called])).toString('base64url')
}

/** Compares in constant time. */
export function isProof(given: unknown, expected: string): boolean {
  if (typeof given !== 'string') return false
  const [one, other] = [Buffer.from(given), Buffer.from(expected)]
  return one.length === other.length && timingSafeEqual(one, other)
}

function digest(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
