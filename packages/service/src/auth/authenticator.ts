import type { FastifyRequest } from 'fastify'
import type { Clock } from 'tenure'
import type { Authenticator, Identity } from './access.ts'
import { systemClock } from '../common/clock.ts'
import { ServiceError, wrongOption } from '../common/errors.ts'
import { CertificateVerifier, type CertificateOptions } from './certificate.ts'
import { TokenVerifier, type JwtOptions } from './jwt.ts'
import { selfIssuedTokenOptions } from './self-issued-tokens.ts'
import { CredentialError } from './credential-error.ts'

/** How the service identifies callers: by tokens, by certificates, or both. */
export interface AuthenticationOptions {
  /** Tokens from an external issuer. */
  readonly jwt?: JwtOptions | undefined
  /** Instead of `jwt`: the public key, PEM, that verifies tokens made by `tenure token sign` or `signToken`. */
  readonly tokenKeyFile?: string | undefined
  readonly certificates?: CertificateOptions | undefined
}

type Recalled = Parameters<Authenticator['recall']>[0]

interface Verifiers {
  readonly tokens: TokenVerifier | undefined
  readonly certificates: CertificateVerifier | undefined
}

/**
 * Reads keys and rights. A request with a token is identified by the token alone, any other request by its certificate.
 */
export async function createAuthenticator(
  options: AuthenticationOptions,
  clock: Clock = systemClock,
): Promise<Authenticator> {
  const { jwt, tokenKeyFile, certificates } = options
  if (!jwt && tokenKeyFile === undefined && !certificates) {
    throw wrongOption(
      'authentication',
      ' is empty; ',
      'set tokenKeyFile, jwt, or certificates; certificates can be combined with either of the others.',
    )
  }
  // With two issuers, one could issue tokens for the subjects of the other.
  if (jwt && tokenKeyFile !== undefined) {
    throw wrongOption(
      'authentication.tokenKeyFile',
      ' ',
      'cannot be combined with authentication.jwt: tokens have one issuer.',
    )
  }
  let verifiers = await read(options, clock)
  let generation = 0
  const identifyLater = async (request: FastifyRequest, pending: Promise<Identity>): Promise<Identity> => {
    const used = verifiers
    try {
      const identity = await pending
      // If keys and rights are reloaded during this await, use the new ones.
      return used === verifiers ? identity : await authenticator.identify(request)
    } catch (error) {
      throw refused(error)
    }
  }
  const authenticator: Authenticator = {
    identify(request) {
      try {
        const identity = identify(verifiers, request)
        return identity instanceof Promise ? identifyLater(request, identity) : identity
      } catch (error) {
        throw refused(error)
      }
    },
    recall: (request) => recall(verifiers, request),
    get generation() {
      return generation
    },
    async reload() {
      verifiers = await read(options, clock)
      generation += 1
    },
  }
  return authenticator
}

async function read({ jwt, tokenKeyFile, certificates }: AuthenticationOptions, clock: Clock): Promise<Verifiers> {
  const own = tokenKeyFile === undefined ? undefined : selfIssuedTokenOptions(tokenKeyFile)
  return {
    tokens: own
      ? await TokenVerifier.open(own, clock, 'authentication.tokenKeyFile')
      : jwt && (await TokenVerifier.open(jwt, clock)),
    certificates: certificates && (await CertificateVerifier.open(certificates, clock)),
  }
}

function identify({ tokens, certificates }: Verifiers, request: FastifyRequest): Identity | Promise<Identity> {
  const { authorization } = request.headers
  if (authorization !== undefined) {
    if (!tokens) throw new CredentialError('the request has a token, but the service accepts no tokens')
    return tokens.verify(tokenOf(authorization))
  }
  const identity = certificates?.verify(request.socket)
  if (identity) return identity
  throw unauthorized('This request needs a token or a client certificate.')
}

function recall({ tokens, certificates }: Verifiers, { headers, socket }: Recalled): string | undefined {
  const { authorization } = headers
  try {
    if (authorization !== undefined) return tokens?.recall(tokenOf(authorization))
    return certificates?.verify(socket)?.subject
  } catch {
    // The caller is identified again later, and that check rejects this request.
    return undefined
  }
}

/** Returns the bearer token. The head check has refused a second Authorization header, which Node would drop. */
function tokenOf(authorization: string): string {
  const [, token] = /^Bearer ([A-Za-z0-9._-]+)$/i.exec(authorization) ?? []
  if (token === undefined) throw new CredentialError('the Authorization header is not a bearer token')
  return token
}

/** The error for a caller that is not identified. The cause goes into the log, not into the response. */
function unauthorized(text: string, cause?: Error): ServiceError {
  return new ServiceError('UNAUTHORIZED', text, { status: 401, cause })
}

/** The error for an invalid credential. The reason goes only into the log, so that a forger learns nothing from it. */
function refused(error: unknown): unknown {
  if (!(error instanceof CredentialError)) return error
  return unauthorized(error.expired ? 'The credential has expired.' : 'The credential is not valid.', error)
}
