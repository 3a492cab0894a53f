/** Signs and verifies tokens that the operator of a service issues with its own key, without an external issuer. */
import { createPrivateKey, generateKeyPair } from 'node:crypto'
import { promisify } from 'node:util'
import { uuid } from '@tenure/internal/clock'
import { messageOf } from '@tenure/internal/message'
import { calculateJwkThumbprint, exportJWK, importPKCS8, SignJWT } from 'jose'
import type { Clock } from 'tenure'
import { checkOptions, type OptionNames } from 'tenure/internal'
import { isValidNodeId } from '../common/checks.ts'
import { systemClock } from '../common/clock.ts'
import { wrongOption } from '../common/errors.ts'
import { maxTokenLength, type JwtOptions } from './jwt.ts'
import { parseRights } from './rights.ts'

/**
 * Signing needs the private half of the key and verifying only the public half, so no replica holds anything that could
 * sign a token. Every tool that supports JWT supports ES256, and Node verifies it in a third of the time that EdDSA
 * takes.
 */
const algorithm = 'ES256'
/** Issuer and audience are the same in every installation, because the key alone identifies the issuer. */
const issuer = 'tenure'
const audience = 'tenure'
const dayMs = 86_400_000
const longestMs = 366 * dayMs
const shortestMs = 60_000

/** A new key pair, both halves as PEM. */
export interface TokenKey {
  /** Signs tokens. Keep it secret. */
  readonly privateKey: string
  /** Verifies tokens. Every replica needs it as `authentication.tokenKeyFile`. */
  readonly publicKey: string
}

/** The options of {@link signToken}. */
export interface TokenOptions {
  /** The node that the token acts for. Logs show it as the subject. */
  readonly node: string
  /** The groups in which the node may take part. `*` matches any characters. Default: none. */
  readonly groups?: readonly string[] | undefined
  /** Allows reading all groups. Default: false. */
  readonly reader?: boolean | undefined
  /** Allows defining and deleting groups, revoking tokens, and reading everything. Default: false. */
  readonly admin?: boolean | undefined
  /** How long the token is valid, from one minute to 366 days. Default: 30 days. */
  readonly lifetimeMs?: number | undefined
  readonly clock?: Clock | undefined
}

/** A signed token, and the data to keep on record about it. */
export interface SignedToken {
  readonly token: string
  /** The id by which the token can be revoked. */
  readonly id: string
  /** In Unix milliseconds. */
  readonly expiresAtMs: number
}

const names: OptionNames<TokenOptions> = {
  node: true,
  groups: true,
  reader: true,
  admin: true,
  lifetimeMs: true,
  clock: true,
}

/**
 * Creates a key pair for tokens.
 *
 * @example
 * const { privateKey, publicKey } = await createTokenKey()
 */
export async function createTokenKey(): Promise<TokenKey> {
  return promisify(generateKeyPair)('ec', {
    namedCurve: 'prime256v1',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
}

/**
 * Signs a token for a service that has the public half of the key as `authentication.tokenKeyFile`.
 *
 * @example
 * const { token, id } = await signToken(privateKey, { node: 'machine-2', groups: ['my-job'] })
 */
export async function signToken(privateKey: string, options: TokenOptions): Promise<SignedToken> {
  checkOptions('signToken()', options, names)
  const { node, groups = [], reader = false, admin = false, clock = systemClock } = options
  const { lifetimeMs = 30 * dayMs } = options
  if (!isValidNodeId(node)) {
    const rule =
      'it must be 1 to 256 bytes of text without control characters, invisible characters, or surrounding blanks.'
    throw wrongOption('node', ` is ${JSON.stringify(node)}; `, rule)
  }
  if (!(lifetimeMs >= shortestMs && lifetimeMs <= longestMs)) {
    throw wrongOption('lifetimeMs', ` is ${lifetimeMs}; `, 'it must be from one minute to 366 days.')
  }
  if (groups.length === 0 && !reader && !admin) {
    throw wrongOption('groups', ' ', 'must name a group unless reader or admin is true: the token would grant nothing.')
  }
  const rights = { groups, ...(reader && { reader }), ...(admin && { admin }) }
  try {
    parseRights(rights, node)
  } catch (error) {
    throw wrongOption('groups', ': ', `${messageOf(error)}.`, error)
  }
  const { key, kid } = await importPrivate(privateKey)
  const id = uuid()
  const issuedAt = Math.floor(clock.wallMs() / 1000)
  const expiresAt = issuedAt + Math.floor(lifetimeMs / 1000)
  const token = await new SignJWT({ tenure: rights })
    .setProtectedHeader({ alg: algorithm, kid, typ: 'JWT' })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject(node)
    .setIssuedAt(issuedAt)
    .setExpirationTime(expiresAt)
    .setJti(id)
    .sign(key)
  if (token.length > maxTokenLength) {
    const rule = `result in a token of ${token.length} characters, above the limit of ${maxTokenLength}: use patterns.`
    throw wrongOption('groups', ' ', rule)
  }
  return { token, id, expiresAtMs: expiresAt * 1000 }
}

/** Returns the options with which a service verifies these tokens. */
export function selfIssuedTokenOptions(keyFile: string): JwtOptions {
  return { keysFile: keyFile, issuer, audience, maxLifetimeMs: longestMs }
}

/** Imports the private key. The error never contains any part of the key. */
async function importPrivate(pem: string) {
  const wrong = (cause?: unknown) =>
    wrongOption('privateKey', ' ', 'must be the private key in PEM format that "tenure token key" made.', cause)
  let key
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(pem)
    if (asymmetricKeyType !== 'ec' || asymmetricKeyDetails?.namedCurve !== 'prime256v1') throw wrong()
    key = await importPKCS8(pem, algorithm, { extractable: true })
  } catch (error) {
    throw wrong(error)
  }
  const { kty, crv, x, y } = await exportJWK(key)
  const publicHalf = { kty, crv, x, y } as Parameters<typeof calculateJwkThumbprint>[0]
  return { key, kid: await calculateJwkThumbprint(publicHalf) }
}
