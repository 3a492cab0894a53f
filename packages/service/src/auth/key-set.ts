import { createPublicKey } from 'node:crypto'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import { calculateJwkThumbprint, importJWK, type CryptoKey, type JWK } from 'jose'
import { pemBlocks } from './option-files.ts'
import { parseStrictJson } from './strict-json.ts'

/** A key that verifies signatures of one algorithm only, whatever algorithm a token names. */
export interface VerificationKey {
  readonly algorithm: string
  readonly key: CryptoKey
}

/** Keys by their `kid`. A key without a `kid` is stored under its thumbprint (RFC 7638). */
export type KeySet = ReadonlyMap<string, VerificationKey>

const algorithmsOf: Readonly<Record<string, readonly string[]>> = {
  RSA: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  'P-256': ['ES256'],
  'P-384': ['ES384'],
  'P-521': ['ES512'],
  Ed25519: ['EdDSA', 'Ed25519'],
}

/** Reads a JWKS, a JWK, or public keys in PEM. */
export async function parseKeys(text: string): Promise<KeySet> {
  const keys = new Map<string, VerificationKey>()
  for (const jwk of text.trimStart().startsWith('{') ? jwksOf(text) : pemKeysOf(text)) {
    // Issuers list their encryption keys next to their signing keys.
    if (jwk.use !== undefined && jwk.use !== 'sig') continue
    const algorithm = algorithmOf(jwk)
    const kid = jwk.kid ?? (await calculateJwkThumbprint(jwk))
    if (keys.has(kid)) throw new Error(`two keys have the kid ${JSON.stringify(kid)}`)
    keys.set(kid, { algorithm, key: await importPublic(jwk, algorithm) })
  }
  if (keys.size === 0) throw new Error('it contains no signing key')
  return keys
}

function jwksOf(text: string): JWK[] {
  const value = parseStrictJson(text)
  const keys = isObject(value) && 'keys' in value ? value['keys'] : [value]
  if (!Array.isArray(keys) || !keys.every(isJwk)) throw new Error('it must be a JWKS, { "keys": [...] }, or PEM')
  return keys
}

function isJwk(value: unknown): value is JWK {
  return (
    isObject(value) &&
    typeof value['kty'] === 'string' &&
    ['kid', 'alg', 'use', 'crv'].every((field) => value[field] === undefined || typeof value[field] === 'string')
  )
}

function pemKeysOf(text: string): JWK[] {
  return pemBlocks(text).map(({ label, pem }) => {
    // Only the certificate's key would be used, and its expiry and issuer would be ignored.
    if (label.endsWith('CERTIFICATE')) throw new Error('it contains a certificate; provide only the public key')
    if (label.endsWith('PRIVATE KEY')) throw new Error('it contains a private key; provide only the public key')
    return createPublicKey(pem).export({ format: 'jwk' })
  })
}

function algorithmOf(jwk: JWK): string {
  if (jwk.kty === 'oct') throw new Error('it contains a shared secret (kty oct); provide a public key')
  if (jwk.d !== undefined) throw new Error('it contains a private key; provide only the public key')
  if (jwk.key_ops && !jwk.key_ops.includes('verify'))
    throw new Error('it contains a key whose key_ops do not allow verification')
  if (jwk.kty === 'RSA' && Buffer.from(jwk.n ?? '', 'base64url').length < 256) {
    throw new Error('it contains an RSA key of less than 2048 bits')
  }
  const possible = algorithmsOf[jwk.kty === 'RSA' ? 'RSA' : (jwk.crv ?? '')] ?? []
  const algorithm = jwk.alg ?? possible[0]
  if (algorithm === undefined || !possible.includes(algorithm)) {
    throw new Error(`it contains a key of an unknown kind (kty ${jwk.kty}, crv ${jwk.crv}, alg ${jwk.alg})`)
  }
  return algorithm
}

async function importPublic(jwk: JWK, algorithm: string): Promise<CryptoKey> {
  try {
    // Import only the key itself. Certificates and addresses next to it are ignored.
    const { kty, crv, n, e, x, y } = jwk
    const bare = Object.fromEntries(Object.entries({ kty, crv, n, e, x, y }).filter(([, part]) => part !== undefined))
    const key = await importJWK(bare as JWK, algorithm)
    if (key instanceof Uint8Array) throw new Error('it is not a public key')
    return key
  } catch (error) {
    throw new Error(`a key cannot be used: ${messageOf(error)}`, { cause: error })
  }
}
