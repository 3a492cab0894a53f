import { messageOf } from '@tenure/internal/message'
import type { ErrorCode } from 'tenure'
import { isTenureError, optionMessage, type TenureError } from 'tenure/internal/options'
import { formatDuration } from './arguments/durations.ts'
import { CommandError, exitCodes } from './arguments/errors.ts'

/** The command-line names of the library's options. */
const names: Readonly<Record<string, string>> = {
  store: '--store',
  url: 'The address',
  token: 'The token',
  ca: '--ca-file',
  cert: '--cert-file',
  key: '--key-file',
  election: 'ELECTION',
  identity: '--identity',
  metadata: '--metadata',
  leaseDurationMs: '--ttl',
  shards: '--shards',
  maxMembers: '--max-members',
}

const untrusted =
  'The CA of its certificate is not trusted here. Name the CA certificate with --ca-file or TENURE_CA_FILE (for Kubernetes, in the kubeconfig).'
const unreachable = 'It cannot be reached from here. Check the address, the network and the firewalls.'

const hungUp =
  'The server closed the connection. Does it expect TLS (https:, rediss: for Redis, etcds: for etcd, sslmode for PostgreSQL, ssl-mode for MySQL), or is there a proxy in between?'
const withoutTls = 'Should it be http: instead of https: (redis: instead of rediss:, etcd: instead of etcds:)'

/** Advice for socket errors, which say only what happened. */
const advice: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Nothing is listening there. Start the server, or correct the host or the port.',
  ENOTFOUND: 'That host name cannot be resolved. Correct it, or check the DNS server.',
  EAI_AGAIN: 'The DNS server does not answer. Try again, or check the network.',
  ECONNRESET: hungUp,
  // The same as ECONNRESET, but while sending.
  EPIPE: hungUp,
  EPROTO: `The TLS handshake failed. ${withoutTls}?`,
  ERR_SSL_WRONG_VERSION_NUMBER: `The server does not use TLS on this port. ${withoutTls}, or another port?`,
  EHOSTUNREACH: unreachable,
  ENETUNREACH: unreachable,
  ETIMEDOUT: `${unreachable} A port without TLS may also never answer a TLS client, such as rediss:.`,
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  CERT_HAS_EXPIRED: 'Its certificate has expired. Renew it, and check the clock of this machine.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'Its certificate is for another name. Use that name in the URL.',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'It requires a client certificate. Set --cert-file and --key-file.',
}

/** Exit codes for requests that the server understood and rejected. */
const exitCodesByCode: Partial<Record<ErrorCode, number>> = {
  INVALID_TTL: exitCodes.usage,
  INVALID_REQUEST: exitCodes.usage,
  TOO_LARGE: exitCodes.usage,
}

/** Explains why a call to a store or a service failed: what happened, to what, and what to do. */
export function commandErrorOf(error: unknown): CommandError {
  if (error instanceof CommandError) return error
  if (!isTenureError(error)) {
    const message = messageOf(error)
    return new CommandError(withAdvice(message, adviceOf(error)), exitCodes.unavailable, { cause: error })
  }
  const { code, option } = error
  if (code === 'INVALID_OPTION' || code === 'UNKNOWN_STORE') {
    return new CommandError(wrongOption(error), exitCodes.usage, { cause: error })
  }
  const isUnknown = code === 'UNAUTHORIZED' && option === 'token'
  const known =
    adviceOf(error) ?? (isUnknown ? 'Authenticate with --token-file, TENURE_TOKEN or --cert-file.' : undefined)
  // A service has answered that there is no such election. From other stores this code means that a database or table
  // is missing.
  const isAnswer = code === 'NOT_FOUND' && option === 'election'
  const exitCode = isAnswer ? exitCodes.failed : (exitCodesByCode[code] ?? exitCodes.unavailable)
  return new CommandError(withAdvice(withUserAdvice(error), known), exitCode, { cause: error })
}

function wrongOption(error: TenureError): string {
  const { message, option, value, rule, least } = error
  if (option === undefined || rule === undefined) return message
  const name = names[option] ?? option
  if (typeof value !== 'number' || least === undefined || value >= least) return optionMessage(name, error)
  return `${name} must be ${formatDuration(least)} or more, not ${formatDuration(value)}.`
}

/** Replaces the library's advice for programmers with advice for users, depending on the option. */
const ourAdvice: Readonly<Record<string, (rule: string, advice: string) => string>> = {
  path: () => 'Set KUBECONFIG to the path of a kubeconfig.',
  context: (rule) => `Choose with "kubectl config use-context" ${rule}.`,
  client: () => 'Use a kubeconfig with a token or a client certificate instead.',
  createTable: (rule, advice) =>
    `https://github.com/tenure-js/tenure/blob/main/docs/stores/${storeOf(advice)}.md shows how an administrator gets the ${rule}`,
  identity: () => 'Set --identity to the node that the token or the certificate names.',
}

/** The store whose function the library's advice names, such as `mysql` for `mysqlSchema()`. This is also its page. */
function storeOf(advice: string): string {
  return /^[a-z]+(?=Schema\()/.exec(advice)?.[0] ?? 'README'
}

/** The flags that correspond to variables that the library reads. */
const fileFlags: Readonly<Record<string, string>> = {
  TENURE_CA_FILE: '--ca-file',
  TENURE_CERT_FILE: '--cert-file',
  TENURE_KEY_FILE: '--key-file',
  TENURE_TOKEN_FILE: '--token-file',
}

function withUserAdvice({ message, option = '', value, rule = '', advice }: TenureError): string {
  const flag = fileFlags[option]
  if (flag !== undefined) return `${flag} ${value} ${rule}.`
  if (advice === undefined) return message
  const ours = ourAdvice[option]?.(rule, advice)
  return ours === undefined ? message : message.replace(advice, () => ours)
}

function withAdvice(message: string, further: string | undefined): string {
  if (further === undefined) return message
  return `${message}${message.endsWith('.') ? '' : '.'} ${further}`
}

function adviceOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const own = 'code' in error && typeof error.code === 'string' ? advice[error.code] : undefined
  const below = error instanceof AggregateError ? error.errors.map(adviceOf).find(Boolean) : undefined
  return own ?? below ?? adviceOf(error.cause)
}

/** Runs a step, and reports a failure in command-line terms. */
export function withCommandErrors<T>(step: () => T): T {
  try {
    return step()
  } catch (error) {
    throw commandErrorOf(error)
  }
}
