/** Verifies tokens: signature, audience, lifetime, and the rights they grant. */
import { hash } from 'node:crypto'
import { errors, jwtVerify, type JWTVerifyOptions } from 'jose'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import type { Clock } from 'tenure'
import type { Identity } from './access.ts'
import { isValidNodeId } from '../common/checks.ts'
import { wrongOption } from '../common/errors.ts'
import { CredentialError } from './credential-error.ts'
import { readOptionFile } from './option-files.ts'
import { parseKeys, type KeySet, type VerificationKey } from './key-set.ts'
import { revocationGroupId } from './revocations.ts'
import { parseRights } from './rights.ts'
import { parseStrictJson } from './strict-json.ts'

/** How tokens are verified. */
export interface JwtOptions {
  /** The issuer's public keys: a JWKS, or PEM. */
  readonly keysFile: string
  /** The required `iss` claim. */
  readonly issuer: string
  /** The required value in the `aud` claim. */
  readonly audience: string
  /** The longest time from `iat` to `exp`. Default: 24 hours. */
  readonly maxLifetimeMs?: number | undefined
  /** How far the issuer's clock may be off: at most 30 s. Default: 5 s. */
  readonly clockToleranceMs?: number | undefined
}

/** The length limit of a token, in characters. */
export const maxTokenLength = 8_192
const claimRefusals: Readonly<Record<string, string>> = {
  iss: 'the token has a different issuer',
  aud: 'the token has a different audience',
}
/**
 * jose checks these claims last. So if jose rejects one of them, everything else is valid. They are checked below
 * instead.
 */
const times = ['exp', 'iat', 'nbf']
/** Disables jose's time checks: see `#claims`. */
const noTimeLimit = { clockTolerance: Number.MAX_SAFE_INTEGER }
const maxKeysTried = 4
const maxCachedTokens = 10_000

interface CachedIdentity {
  readonly identity: Identity
  readonly fromMs: number
  readonly untilMs: number
}

function digestOf(token: string): string {
  return hash('sha256', token, 'base64')
}

/** Identifies the subject of a token. */
export class TokenVerifier {
  readonly #options: JwtOptions
  readonly #clock: Clock
  readonly #keys: KeySet
  // Clients send the same token for hours, so verified tokens are cached. The cache holds only their digests.
  readonly #known = new Map<string, CachedIdentity>()

  private constructor(options: JwtOptions, clock: Clock, keys: KeySet) {
    this.#options = options
    this.#clock = clock
    this.#keys = keys
  }

  /** `option` is the name of the option that holds the key file. */
  static async open(options: JwtOptions, clock: Clock, option = 'authentication.jwt.keysFile'): Promise<TokenVerifier> {
    checkOptions(options)
    const text = await readOptionFile(option, options.keysFile)
    try {
      return new TokenVerifier(options, clock, await parseKeys(text))
    } catch (error) {
      throw wrongOption(option, ': ', `${messageOf(error)}.`, error)
    }
  }

  /** Returns synchronously for a token that was verified before. */
  verify(token: string): Identity | Promise<Identity> {
    if (token.length > maxTokenLength) throw new CredentialError('the token is too long')
    const digest = digestOf(token)
    const known = this.#known.get(digest)
    return known
      ? this.#inTime(digest, known)
      : this.#verifyToken(token).then((examined) => this.#inTime(digest, examined))
  }

  /** Returns the subject of a token that was verified before, even if it has expired since. */
  recall(token: string): string | undefined {
    return token.length > maxTokenLength ? undefined : this.#known.get(digestOf(token))?.identity.subject
  }

  /** Returns the identity of a known token. Throws if the token has expired, or is not valid yet. */
  #inTime(digest: string, known: CachedIdentity): Identity {
    const nowMs = this.#clock.wallMs()
    if (nowMs < known.fromMs) throw new CredentialError('the token is not valid yet')
    if (nowMs >= known.untilMs) throw new CredentialError('the token has expired', { expired: true })
    this.#remember(digest, known)
    return known.identity
  }

  #remember(digest: string, known: CachedIdentity): void {
    this.#known.delete(digest)
    this.#known.set(digest, known)
    if (this.#known.size <= maxCachedTokens) return
    const [oldest = ''] = this.#known.keys()
    this.#known.delete(oldest)
  }

  async #verifyToken(token: string): Promise<CachedIdentity> {
    const [header, payload, signature, ...more] = token.split('.').map(bytesOf)
    if (!header || !payload || !signature || more.length > 0) throw new CredentialError('the token is malformed')
    const { issuer, audience } = this.#options
    for (const { key, algorithm } of this.#keysFor(objectOf(header))) {
      const verified = await verify(token, key, { algorithms: [algorithm], issuer, audience, ...noTimeLimit })
      if (!verified) continue
      // jose would accept duplicate keys and take the last one.
      const claims = objectOf(payload)
      const { wrongClaim } = verified
      if (wrongClaim === undefined || times.includes(wrongClaim)) return this.#claims(claims)
      throw new CredentialError(claimRefusals[wrongClaim] ?? 'the token is malformed')
    }
    throw new CredentialError("the token's signature is invalid")
  }

  /**
   * Returns the key that `kid` names, or without `kid` all keys of the algorithm, as during key rotation. Keys that a
   * token contains or points to (`jwk`, `jku`, `x5c`, `x5u`) are ignored.
   */
  #keysFor({ alg, kid, crit, b64, typ }: Readonly<Record<string, unknown>>) {
    if (crit !== undefined) throw new CredentialError('the token has a critical extension')
    if (b64 !== undefined) throw new CredentialError('the token has the extension b64')
    // The issuer may have signed this token for another purpose, such as a logout.
    if (typ !== undefined && !(typeof typ === 'string' && /^(?:application\/)?(?:at\+)?jwt$/i.test(typ))) {
      throw new CredentialError('the token has a different type')
    }
    const named = typeof kid === 'string' ? this.#keys.get(kid) : undefined
    if (kid !== undefined && !named) throw new CredentialError('the token names an unknown key')
    const keys = (named ? [named] : [...this.#keys.values()]).filter(({ algorithm }) => algorithm === alg)
    if (keys.length === 0) throw new CredentialError("the token's algorithm does not match its key")
    // Each candidate key costs a signature verification.
    return keys.slice(0, maxKeysTried)
  }

  /**
   * Checks what jose does not check, or checks less strictly: that the subject is valid, that both `exp` and `iat` are
   * present and not too far apart, and what the token grants. Times are compared on every call, to the millisecond and
   * on the service's clock. jose would compare them once, in whole seconds.
   */
  #claims(claims: Readonly<Record<string, unknown>>): CachedIdentity {
    const { maxLifetimeMs = 86_400_000, clockToleranceMs = 5_000 } = this.#options
    const { sub, jti, tenure = {} } = claims
    if (typeof sub !== 'string' || !isValidNodeId(sub)) throw new CredentialError('the token has no valid subject')
    const exp = instantOf(claims, 'exp')
    const iat = instantOf(claims, 'iat')
    const nbf = claims['nbf'] === undefined ? iat : instantOf(claims, 'nbf')
    // JSON allows numbers that parse as Infinity. This limit rejects them as well.
    if (exp <= iat || exp - iat > maxLifetimeMs)
      throw new CredentialError("the token's lifetime is not positive, or too long")
    let rights
    try {
      rights = parseRights(tenure, sub)
    } catch (error) {
      throw new CredentialError(`the token's "tenure" claim is invalid: ${messageOf(error)}`)
    }
    const untilMs = exp + clockToleranceMs
    return {
      identity: {
        subject: sub,
        ...rights,
        expiresAtMs: untilMs,
        revocation: typeof jti === 'string' ? revocationGroupId(jti) : undefined,
      },
      fromMs: Math.max(iat, nbf) - clockToleranceMs,
      untilMs,
    }
  }
}

/** Returns undefined if the signature is invalid. Otherwise returns the first claim that jose rejects, if any. */
async function verify(
  token: string,
  key: VerificationKey['key'],
  expected: JWTVerifyOptions,
): Promise<{ readonly wrongClaim?: string } | undefined> {
  try {
    await jwtVerify(token, key, expected)
    return {}
  } catch (error) {
    // jose checks claims only after the signature is verified.
    if (error instanceof errors.JWTInvalid) return { wrongClaim: 'any' }
    const isClaim = error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired
    return isClaim ? { wrongClaim: error.claim } : undefined
  }
}

function checkOptions({ issuer, audience, maxLifetimeMs = 1, clockToleranceMs = 0 }: JwtOptions): void {
  for (const [name, value] of Object.entries({ issuer, audience })) {
    if (typeof value === 'string' && value !== '') continue
    const rule = 'it must be a non-empty string.'
    throw wrongOption(`authentication.jwt.${name}`, ` is ${JSON.stringify(value)}; `, rule)
  }
  if (!(maxLifetimeMs > 0 && Number.isFinite(maxLifetimeMs))) {
    const rule = 'it must be above 0 and finite.'
    throw wrongOption('authentication.jwt.maxLifetimeMs', ` is ${maxLifetimeMs}; `, rule)
  }
  if (!(clockToleranceMs >= 0 && clockToleranceMs <= 30_000)) {
    throw wrongOption('authentication.jwt.clockToleranceMs', ` is ${clockToleranceMs}; `, 'it must be 0 to 30000.')
  }
}

/** Returns undefined unless the part is base64url in its canonical spelling. */
function bytesOf(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, 'base64url')
  return part !== '' && bytes.toString('base64url') === part ? bytes : undefined
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function objectOf(bytes: Buffer): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = parseStrictJson(utf8.decode(bytes))
  } catch {
    throw new CredentialError('the token does not contain valid JSON')
  }
  if (!isObject(value)) throw new CredentialError('the token does not contain a JSON object')
  return value
}

/** Returns a time claim in Unix milliseconds. */
function instantOf(claims: Readonly<Record<string, unknown>>, name: string): number {
  const seconds = claims[name]
  if (typeof seconds !== 'number' || !(seconds > 0)) {
    throw new CredentialError(`the token's "${name}" claim is missing or is not a valid time`)
  }
  return seconds * 1000
}
