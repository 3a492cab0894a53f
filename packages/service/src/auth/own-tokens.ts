/** Tokens of a key that the operator of a service made, without an issuer beside it: how they are made and checked. */
import { createPrivateKey, generateKeyPair } from 'node:crypto'
import { promisify } from 'node:util'
import { uuid } from '@tenure/internal/clock'
import { messageOf } from '@tenure/internal/message'
import { calculateJwkThumbprint, exportJWK, importPKCS8, SignJWT } from 'jose'
import type { Clock } from 'tenure'
import { checkOptions, type OptionNames } from 'tenure/options'
import { isSoundNodeId } from '../checks.ts'
import { systemClock } from '../clock.ts'
import { wrongOption } from '../errors.ts'
import { longestToken, type JwtOptions } from './jwt.ts'
import { parseRights } from './rights.ts'

/**
 * Signing needs the private half and checking only the public one: no replica holds anything by which a token could be
 * made. Every tool that knows tokens knows ES256, and Node checks it in a third of the time that EdDSA takes.
 */
const algorithm = 'ES256'
/** The key says whose tokens they are: these are the same everywhere. */
const issuer = 'tenure'
const audience = 'tenure'
const dayMs = 86_400_000
const longestMs = 366 * dayMs
const shortestMs = 60_000

/** A new key, both halves as PEM. */
export interface TokenKey {
  /** Signs tokens: for nobody else to read. */
  readonly privateKey: string
  /** Checks them: for every replica, as `authentication.tokenKeyFile`. */
  readonly publicKey: string
}

/** What {@link signToken} takes. */
export interface TokenOptions {
  /** The node that it speaks for; in logs, its subject. */
  readonly node: string
  /** The groups in which it takes part; `*` stands for anything. Default: none. */
  readonly groups?: readonly string[] | undefined
  /** Sees all groups. */
  readonly reader?: boolean | undefined
  /** Defines and deletes groups, revokes tokens, and sees all. */
  readonly admin?: boolean | undefined
  /** A minute to 366 days. Default: 30 days. */
  readonly lifetimeMs?: number | undefined
  readonly clock?: Clock | undefined
}

/** A token, and what is to be noted of it. */
export interface SignedToken {
  readonly token: string
  /** By which it is revoked. */
  readonly id: string
  /** Unix time. */
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
 * Makes a key for tokens.
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
  if (!isSoundNodeId(node)) {
    const rule = 'it must be 1 to 256 bytes of text without control characters, invisible ones and blanks around it.'
    throw wrongOption('node', ` is ${JSON.stringify(node)}; `, rule)
  }
  if (!(lifetimeMs >= shortestMs && lifetimeMs <= longestMs)) {
    throw wrongOption('lifetimeMs', ` is ${lifetimeMs}; `, 'it must be from a minute to 366 days.')
  }
  if (groups.length === 0 && !reader && !admin) {
    throw wrongOption('groups', ' ', 'must name a group, or reader or admin be true: otherwise it grants nothing.')
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
  if (token.length > longestToken) {
    const rule = `make a token of ${token.length} characters, and a service takes ${longestToken}: use patterns.`
    throw wrongOption('groups', ' ', rule)
  }
  return { token, id, expiresAtMs: expiresAt * 1000 }
}

/** How a service checks these tokens. */
export function ownTokens(keyFile: string): JwtOptions {
  return { keysFile: keyFile, issuer, audience, maxLifetimeMs: longestMs }
}

/** What is wrong with a key is said without a word of it. */
async function importPrivate(pem: string) {
  const wrong = (cause?: unknown) =>
    wrongOption('privateKey', ' ', 'must be the private key that "tenure token key" made, PEM.', cause)
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
