/**
 * How two replicas know each other: both can read the storage, and so know its secret. Each proves that to the other by
 * a digest over numbers that both drew, so nobody who answers at an address by mistake, or listens there on purpose,
 * learns anything.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { secret as newSecret } from '@tenure/internal/clock'
import { keysFrom } from '../auth/seal.ts'

/** Part of the upgrade: replicas that speak otherwise refuse each other by it. */
export const protocol = 'tenure-link-1'
export const linkPath = '/link'
export const linkHeaders = {
  cluster: 'tenure-cluster-id',
  key: 'tenure-link-key',
  nonce: 'tenure-link-nonce',
  proof: 'tenure-link-proof',
} as const

/** A key, and a name by which the other side finds it among its own. */
export interface LinkKey {
  readonly name: string
  readonly key: Buffer
}

/** The one that is used first. */
export function linkKeys(secret: string): LinkKey[] {
  return keysFrom(secret, 'link').map((key) => ({ key, name: digest(key, 'name').toString('base64url').slice(0, 16) }))
}

/** What one connection is about. */
export interface Greeting {
  readonly clusterId: string
  /** Of the one who connected. */
  readonly caller: string
  /** Of the one who was called. */
  readonly called: string
}

export const newNonce = (): string => newSecret(16).toString('base64url')

export function proofOf(side: 'caller' | 'called', key: Buffer, greeting: Greeting): string {
  return digest(key, JSON.stringify([side, greeting.clusterId, greeting.caller, greeting.called])).toString('base64url')
}

/** In the same time, whatever differs. */
export function isProof(given: unknown, expected: string): boolean {
  if (typeof given !== 'string') return false
  const [one, other] = [Buffer.from(given), Buffer.from(expected)]
  return one.length === other.length && timingSafeEqual(one, other)
}

function digest(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
