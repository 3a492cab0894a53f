/**
 * How two replicas authenticate each other. Both can read the storage, so both know its secret. Each proves this to the
 * other with a digest over nonces from both sides. A process that answers at an address by mistake, or listens there on
 * purpose, learns nothing.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { secret as newSecret } from '@tenure/internal/clock'
import { deriveKeys } from '../common/seal.ts'

/** Sent in the upgrade request, so that replicas with different protocol versions refuse each other. */
export const protocol = 'tenure-link-1'
export const peerPath = '/link'
export const peerHeaders = {
  cluster: 'tenure-cluster-id',
  key: 'tenure-link-key',
  nonce: 'tenure-link-nonce',
  proof: 'tenure-link-proof',
} as const

/** A key, and the name by which the other side finds the same key among its own. */
export interface PeerKey {
  readonly name: string
  readonly key: Buffer
}

/** Returns the keys of a secret. The first one is preferred. */
export function peerKeys(secret: string): PeerKey[] {
  return deriveKeys(secret, 'link').map((key) => ({
    key,
    name: digest(key, 'name').toString('base64url').slice(0, 16),
  }))
}

/** The data that the proofs of one connection cover. */
export interface Handshake {
  readonly clusterId: string
  /** The nonce of the replica that connected. */
  readonly caller: string
  /** The nonce of the replica that was called. */
  readonly called: string
}

export const newNonce = (): string => newSecret(16).toString('base64url')

export function proofOf(side: 'caller' | 'called', key: Buffer, greeting: Handshake): string {
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
