import { isLoopback, isLoopbackHost } from '@tenure/internal/loopback'
import type { Logger } from 'pino'
import type { Clock } from 'tenure'
import { checkOptions, type OptionNames } from 'tenure/internal'
import type { AuthenticationOptions } from './auth/authenticator.ts'
import type { CertificateOptions } from './auth/certificate.ts'
import type { JwtOptions } from './auth/jwt.ts'
import type { TlsOptions } from './auth/tls.ts'
import { isPattern } from './groups/group-pattern.ts'
import { wrongOption } from './common/errors.ts'
import { maxMetricsGroups } from './groups/group-metrics.ts'
import type { LimitOptions } from './http/limit-options.ts'
import type { Policy } from './groups/port.ts'

/** The options of {@link startService}. */
export interface ServiceOptions {
  /** The data directory. It is created if it does not exist. Exactly one of `data` and `store` is required. */
  readonly data?: string | undefined
  /**
   * The server on which this replica and others keep their data: `etcd://host:2379/prefix`, `etcds:` for etcd with TLS,
   * or `postgres:`. All replicas answer requests, and one of them is active.
   */
  readonly store?: string | undefined
  /**
   * With `store`: the URL at which other replicas reach this one, such as `https://10.0.0.7:7071`. Clients do not use
   * this URL.
   */
  readonly advertise?: string | undefined
  /**
   * With `advertise`: a PEM file with the CAs that issue the replicas' certificates. Default: the CAs that Node.js
   * trusts.
   */
  readonly advertiseCaFile?: string | undefined
  /** Default: 127.0.0.1. */
  readonly host?: string | undefined
  /** Default: 7070. With 0, the system picks a free port. */
  readonly port?: number | undefined
  readonly policy?: Policy | undefined
  readonly implicitGroups?: boolean | undefined
  readonly maxGroups?: number | undefined
  readonly maxWatchers?: number | undefined
  /**
   * The ids of groups that have their own metrics, such as `['payments', 'reports-*']`, where `*` matches any
   * characters. At most 1,000 groups have their own metrics, and another metric counts the groups left out. Default:
   * none.
   */
  readonly metricsGroups?: readonly string[] | undefined
  readonly limits?: Partial<LimitOptions> | undefined
  /**
   * Host names, without ports, to which the service answers. Default without authentication: localhost and the listen
   * address, so that a web page cannot reach the service under the page's own host name (DNS rebinding). Default with
   * authentication: all.
   */
  readonly allowedHosts?: readonly string[] | undefined
  /**
   * Accepts a data directory on a network or FUSE file system, where a lock may hold on one host only. Default: false.
   */
  readonly allowNetworkFilesystem?: boolean | undefined
  /** Identities and rights. Without it, every caller may do everything, and the service listens on loopback only. */
  readonly authentication?: AuthenticationOptions | undefined
  readonly tls?: TlsOptions | undefined
  readonly logger?: Logger | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<ServiceOptions> = {
  data: true,
  store: true,
  advertise: true,
  advertiseCaFile: true,
  host: true,
  port: true,
  policy: true,
  implicitGroups: true,
  maxGroups: true,
  maxWatchers: true,
  metricsGroups: true,
  limits: true,
  allowedHosts: true,
  allowNetworkFilesystem: true,
  authentication: true,
  tls: true,
  logger: true,
  clock: true,
}
const policyNames: OptionNames<Policy> = { minTtlMs: true, maxTtlMs: true }
const tlsNames: OptionNames<TlsOptions> = { certFile: true, keyFile: true, clientCaFile: true }
const authenticationNames: OptionNames<AuthenticationOptions> = { jwt: true, tokenKeyFile: true, certificates: true }
const certificateNames: OptionNames<CertificateOptions> = { rightsFile: true }
const jwtNames: OptionNames<JwtOptions> = {
  keysFile: true,
  issuer: true,
  audience: true,
  maxLifetimeMs: true,
  clockToleranceMs: true,
}

/** Rejects unknown option names at every level, because a misspelled option would allow what it was meant to forbid. */
export function checkServiceOptions(options: ServiceOptions): void {
  checkOptions('startService()', options, names)
  const { policy, tls, authentication } = options
  checkPlace(options)
  checkMetricsGroups(options)
  if (policy) checkOptions('policy', policy, policyNames)
  if (tls) checkOptions('tls', tls, tlsNames)
  if (!authentication) return
  checkOptions('authentication', authentication, authenticationNames)
  const { jwt, certificates } = authentication
  if (jwt) checkOptions('authentication.jwt', jwt, jwtNames)
  if (certificates) checkOptions('authentication.certificates', certificates, certificateNames)
}

function checkMetricsGroups({ metricsGroups = [] }: ServiceOptions): void {
  const isList = Array.isArray(metricsGroups) && metricsGroups.length <= maxMetricsGroups
  const wrong = isList ? metricsGroups.find((each) => !isPattern(each)) : metricsGroups
  if (wrong === undefined) return
  const rule = `must be a list of at most ${maxMetricsGroups} group ids, in which * matches any characters.`
  throw wrongOption('metricsGroups', isList ? ` has ${JSON.stringify(wrong)}; it ` : ' ', rule)
}

/** Checks that the data is either in one directory for one process, or on one server for many replicas. */
function checkPlace({ data, store, advertise, advertiseCaFile, allowNetworkFilesystem, tls }: ServiceOptions): void {
  if ((data === undefined) === (store === undefined)) {
    throw wrongOption(data === undefined ? 'data' : 'store', ' ', 'is invalid: set exactly one of data and store.')
  }
  if (store === undefined) {
    const [alone] = Object.entries({ advertise, advertiseCaFile }).find(([, value]) => value !== undefined) ?? []
    if (alone !== undefined) throw wrongOption(alone, ' ', 'needs store: only replicas with a shared store have peers.')
    return
  }
  if (allowNetworkFilesystem) throw wrongOption('allowNetworkFilesystem', ' ', 'is only valid with a data directory.')
  if (advertise === undefined)
    throw wrongOption('store', ' ', 'needs advertise, the URL at which other replicas reach this one.')
  const url = URL.canParse(advertise) ? new URL(advertise) : undefined
  const isPlain = url?.protocol === 'http:' && isLoopbackHost(url.hostname)
  if (
    !url ||
    (url.protocol !== 'https:' && !isPlain) ||
    url.port === '' ||
    url.origin !== advertise.replace(/\/$/, '')
  ) {
    const rule = 'must be https://host:port, or http:// with a loopback address.'
    throw wrongOption('advertise', ` is ${JSON.stringify(advertise)}; it `, rule)
  }
  if (!isPlain && !tls)
    throw wrongOption('advertise', ' ', 'with an https: URL requires the option tls, which sets the certificate.')
}

/** Rejects options that would let unauthorized callers in, and options that could never have an effect. */
export function checkExposure({ authentication, tls, host }: ServiceOptions, address: string): void {
  if (!authentication && !isLoopback(address)) {
    const text = 'without authentication the service listens on loopback only (127.0.0.1, ::1, or localhost).'
    throw wrongOption('host', ` is "${host}"; `, text)
  }
  const asked = tls?.clientCaFile !== undefined
  if (authentication?.certificates && !asked) {
    throw wrongOption('authentication.certificates', ' ', 'needs tls.clientCaFile, the CAs that issue them.')
  }
  if (asked && !authentication?.certificates) {
    const rule = 'needs authentication.certificates, which defines what a certificate grants.'
    throw wrongOption('tls.clientCaFile', ' ', rule)
  }
}
