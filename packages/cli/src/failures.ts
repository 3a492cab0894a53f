import { isTenureError, type ErrorCode } from 'tenure'
import { formatDuration } from './durations.ts'
import { CommandError, exitCodes } from './errors.ts'
import { flagOf } from './settings.ts'

/** What options of the library are called here. */
const names: Readonly<Record<string, string>> = {
  store: '--store',
  url: 'The address',
  token: 'The token',
  ca: '--ca-file',
  cert: '--cert-file',
  key: '--key-file',
  election: 'ELECTION',
  identity: '--identity',
  leaseDurationMs: '--ttl',
}

const untrusted =
  'Its certificate comes from an authority that is not trusted here. Name the authority with --ca-file or TENURE_CA_FILE (for Kubernetes, in the kubeconfig).'
const unreachable = 'There is no way to it from here: look at the address, the network and its firewalls.'

/** What to do about the errors of sockets, which say what happened only. */
const advice: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Nothing listens there: start it, or correct the host or the port.',
  ENOTFOUND: 'Nobody knows that name: correct it, or look at the name server.',
  EAI_AGAIN: 'The name server does not answer: try again, or look at the network.',
  ECONNRESET: 'The other side hung up: is it https: instead of http:, or a proxy in between?',
  EPROTO: 'It does not speak TLS as it should: is it http: instead of https:?',
  ERR_SSL_WRONG_VERSION_NUMBER: 'It does not speak TLS: is it http: instead of https:, or another port?',
  EHOSTUNREACH: unreachable,
  ENETUNREACH: unreachable,
  ETIMEDOUT: unreachable,
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  CERT_HAS_EXPIRED: 'Its certificate has run out: let it be renewed, and look at the clock of this machine.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'Its certificate is for another name: call it by that name.',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'It wants a certificate: --cert-file and --key-file.',
}

const adviceByCode: Partial<Record<ErrorCode, string>> = {
  NOT_FOUND: 'Correct the name, or have the group created.',
}

/** What the other side understood, and does not take. */
const exitCodesByCode: Partial<Record<ErrorCode, number>> = {
  NOT_FOUND: exitCodes.failed,
  INVALID_TTL: exitCodes.usage,
  INVALID_REQUEST: exitCodes.usage,
  TOO_LARGE: exitCodes.usage,
}

/** Why a store or a service could not be asked: what happened, to what, and what to do. */
export function failureOf(error: unknown): CommandError {
  if (error instanceof CommandError) return error
  const message = inOurWords(error instanceof Error ? error.message : String(error))
  const code = isTenureError(error) ? error.code : undefined
  if (code === 'INVALID_OPTION' || code === 'UNKNOWN_STORE') {
    const text = message
      .replace(/^Option "(\w+)"/, (_, name: string) => names[name] ?? name)
      .replace(
        / is (\d+), but it must be a number of milliseconds from (\d+) .*$/,
        (_, ms: string, least: string) =>
          ` must be ${formatDuration(Number(least))} or more, not ${formatDuration(Number(ms))}.`,
      )
    return new CommandError(text, exitCodes.usage, { cause: error })
  }
  const known = adviceOf(error) ?? (code && adviceByCode[code]) ?? adviceForWho(error)
  const text = known === undefined ? message : `${message.replace(/\.?$/, '.')} ${known}`
  return new CommandError(text, (code && exitCodesByCode[code]) ?? exitCodes.unavailable, { cause: error })
}

/** What the library advises to whoever writes a program. */
function inOurWords(message: string): string {
  return message
    .replace(/ Pass its path to fromKubeConfig\(\), .*$/s, ' Set KUBECONFIG to the path of one.')
    .replace(' Pass to fromKubeConfig() one of ', ' Choose with "kubectl config use-context" one of ')
    .replace(/ Pass a KubeConfig of .*$/s, ' Use a kubeconfig without it, with a token or a client certificate.')
    .replace(/^The file (.*), which TENURE_([A-Z]+)_FILE names, /s, (_, path: string, kind: string) => {
      return `${flagOf(`${kind.toLowerCase()}File`)} ${path} `
    })
}

/** A service that does not know who asks; a cluster says itself what it wants. */
function adviceForWho(error: unknown): string | undefined {
  if (!isTenureError(error) || error.code !== 'UNAUTHORIZED' || !error.message.includes('election service')) return
  if (error.message.includes('(401)')) return 'Give one with --token-file, TENURE_TOKEN or --cert-file.'
  return error.message.includes(' speaks for another node ')
    ? 'Choose --identity as the token or the certificate names this node.'
    : 'Ask whoever runs the service for that right, or show another token.'
}

function adviceOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const own = 'code' in error && typeof error.code === 'string' ? advice[error.code] : undefined
  const below = error instanceof AggregateError ? error.errors.map(adviceOf).find(Boolean) : undefined
  return own ?? below ?? adviceOf(error.cause)
}
