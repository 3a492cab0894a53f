import { messageOf } from '@tenure/internal/message'
import { isTenureError, type ErrorCode, type TenureError } from 'tenure'
import { optionMessage } from 'tenure/options'
import { formatDuration } from './arguments/durations.ts'
import { CommandError, exitCodes } from './arguments/errors.ts'

/** The names of the library's options here. */
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
}

const untrusted =
  'Its certificate comes from an authority that is not trusted here. Name the authority with --ca-file or TENURE_CA_FILE (for Kubernetes, in the kubeconfig).'
const unreachable = 'It cannot be reached from here: check the address, the network and its firewalls.'

const hungUp =
  'The other side hung up: is it https: instead of http: (rediss: for Redis, etcds: for etcd, sslmode for PostgreSQL), or a proxy in between?'
const withoutTls = 'is it http: instead of https: (redis: instead of rediss:, etcd: instead of etcds:)'

/** What to do about errors of sockets, which only say what happened. */
const advice: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Nothing listens there: start it, or correct the host or the port.',
  ENOTFOUND: 'That name is not known: correct it, or check the name server.',
  EAI_AGAIN: 'The name server does not answer: try again, or check the network.',
  ECONNRESET: hungUp,
  // The same, if it happened while something was being sent.
  EPIPE: hungUp,
  EPROTO: `It does not speak TLS as it should: ${withoutTls}?`,
  ERR_SSL_WRONG_VERSION_NUMBER: `It does not speak TLS: ${withoutTls}, or another port?`,
  EHOSTUNREACH: unreachable,
  ENETUNREACH: unreachable,
  ETIMEDOUT: `${unreachable} With TLS, as in rediss:, it may be a port without TLS, which never answers.`,
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  CERT_HAS_EXPIRED: 'Its certificate has expired: have it renewed, and check the clock of this machine.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'Its certificate is for another name: call it by that name.',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'It requires a certificate: --cert-file and --key-file.',
}

/** What the other side understood and refused. */
const exitCodesByCode: Partial<Record<ErrorCode, number>> = {
  INVALID_TTL: exitCodes.usage,
  INVALID_REQUEST: exitCodes.usage,
  TOO_LARGE: exitCodes.usage,
}

/** Why a store or a service could not be asked: what happened, to what, and what to do. */
export function failureOf(error: unknown): CommandError {
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
  const known = adviceOf(error) ?? (isUnknown ? 'Give one with --token-file, TENURE_TOKEN or --cert-file.' : undefined)
  // A service has answered that there is no such group. Elsewhere a database or a table is missing.
  const isAnswer = code === 'NOT_FOUND' && option === 'election'
  const exitCode = isAnswer ? exitCodes.failed : (exitCodesByCode[code] ?? exitCodes.unavailable)
  return new CommandError(withAdvice(inOurWords(error), known), exitCode, { cause: error })
}

function wrongOption(error: TenureError): string {
  const { message, option, value, rule, least } = error
  if (option === undefined || rule === undefined) return message
  const name = names[option] ?? option
  if (typeof value !== 'number' || least === undefined || value >= least) return optionMessage(name, error)
  return `${name} must be ${formatDuration(least)} or more, not ${formatDuration(value)}.`
}

/** What the library advises to programmers, by the option that it is about. */
const ourAdvice: Readonly<Record<string, (rule: string) => string>> = {
  path: () => 'Set KUBECONFIG to the path of one.',
  context: (rule) => `Choose with "kubectl config use-context" ${rule}.`,
  client: () => 'Use a kubeconfig without it, with a token or a client certificate.',
  createTable: (rule) =>
    `https://github.com/tenure-js/tenure/blob/main/docs/stores/postgres.md shows how an administrator gets the ${rule}`,
  identity: () => 'Choose --identity as the token or the certificate names this node.',
}

/** Flags that give what the library takes from a variable. */
const fileFlags: Readonly<Record<string, string>> = {
  TENURE_CA_FILE: '--ca-file',
  TENURE_CERT_FILE: '--cert-file',
  TENURE_KEY_FILE: '--key-file',
  TENURE_TOKEN_FILE: '--token-file',
}

function inOurWords({ message, option = '', value, rule = '', advice }: TenureError): string {
  const flag = fileFlags[option]
  if (flag !== undefined) return `${flag} ${value} ${rule}.`
  const ours = ourAdvice[option]?.(rule)
  return advice === undefined || ours === undefined ? message : message.replace(advice, () => ours)
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

/** Takes a step, and reports its failure in the words of the command line. */
export function inWords<T>(step: () => T): T {
  try {
    return step()
  } catch (error) {
    throw failureOf(error)
  }
}
