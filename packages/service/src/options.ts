import { isLoopback, isLoopbackHost } from '@tenure/internal/loopback'
import type { Logger } from 'pino'
import type { Clock } from 'tenure'
import { checkOptions, type OptionNames } from 'tenure/options'
import type { AuthenticationOptions } from './auth/authenticator.ts'
import type { CertificateOptions } from './auth/certificate.ts'
import type { JwtOptions } from './auth/jwt.ts'
import type { TlsOptions } from './auth/tls.ts'
import { isPattern } from './auth/rights.ts'
import { wrongOption } from './errors.ts'
import { mostShown } from './groups/shown-groups.ts'
import type { LimitOptions } from './http/limit-options.ts'
import type { Policy } from './groups/groups.ts'

/** What {@link startService} takes. */
export interface ServiceOptions {
  /** The data directory. It is created if it does not exist. Either this or `store`. */
  readonly data?: string | undefined
  /**
   * The server that this and other replicas keep their data on: `etcd://host:2379/prefix`, `etcds:` with TLS, or
   * `postgres:`. All replicas answer, and one of them is active.
   */
  readonly store?: string | undefined
  /** With `store`: the URL by which the other replicas reach this one, such as `https://10.0.0.7:7071`. Not for clients. */
  readonly advertise?: string | undefined
  /** With `advertise`: the authorities of the replicas' certificates, PEM. Default: those that Node.js knows. */
  readonly advertiseCaFile?: string | undefined
  /** Default: 127.0.0.1. */
  readonly host?: string | undefined
  /** Default: 7070; 0 takes a free one. */
  readonly port?: number | undefined
  readonly policy?: Policy | undefined
  readonly implicitGroups?: boolean | undefined
  readonly maxGroups?: number | undefined
  readonly maxWatchers?: number | undefined
  /**
   * Groups that have metrics of their own, by id: `['payments', 'reports-*']`, where `*` stands for any run of characters.
   * At most 1,000 groups have them; a metric tells how many were left out. Default: none.
   */
  readonly metricsGroups?: readonly string[] | undefined
  readonly limits?: Partial<LimitOptions> | undefined
  /**
   * Host names, without ports, to which the service answers. Default without authentication: localhost and the address
   * that it listens on, so that no web page reaches it under a host name of its own. With authentication: all.
   */
  readonly allowedHosts?: readonly string[] | undefined
  /**
   * The data come from a backup: skip all terms that may have been granted since. This happens once per directory.
   *
   * @deprecated The next release removes it. Call {@link restoreData} once instead.
   */
  readonly afterRestore?: boolean | undefined
  /** Accepts a data directory on a network or FUSE file system, where a lock may hold on one host only. Default: no. */
  readonly allowNetworkFilesystem?: boolean | undefined
  /** Identities and rights. Without it everybody may do everything, and only this machine can reach the service. */
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
  afterRestore: true,
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

/** Refuses names that do not exist, at every level: a misspelt option would allow what it was meant to forbid. */
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
  const isList = Array.isArray(metricsGroups) && metricsGroups.length <= mostShown
  const wrong = isList ? metricsGroups.find((each) => !isPattern(each)) : metricsGroups
  if (wrong === undefined) return
  const rule = `must be at most ${mostShown} ids of groups, in which * stands for anything.`
  throw wrongOption('metricsGroups', isList ? ` has ${JSON.stringify(wrong)}; it ` : ' ', rule)
}

/** One directory for one process, or one server for many. */
function checkPlace({
  data,
  store,
  advertise,
  advertiseCaFile,
  afterRestore,
  allowNetworkFilesystem,
  tls,
}: ServiceOptions): void {
  if ((data === undefined) === (store === undefined)) {
    throw wrongOption(
      data === undefined ? 'data' : 'store',
      ' ',
      'is wrong: exactly one of data and store must be given.',
    )
  }
  if (store === undefined) {
    const [alone] = Object.entries({ advertise, advertiseCaFile }).find(([, value]) => value !== undefined) ?? []
    if (alone !== undefined) throw wrongOption(alone, ' ', 'needs store: only replicas on a shared server have others.')
    return
  }
  const [local] = Object.entries({ afterRestore, allowNetworkFilesystem }).find(([, value]) => value) ?? []
  if (local !== undefined) throw wrongOption(local, ' ', 'is for a data directory.')
  if (advertise === undefined)
    throw wrongOption('store', ' ', 'needs advertise, by which other replicas reach this one.')
  const url = URL.canParse(advertise) ? new URL(advertise) : undefined
  const isPlain = url?.protocol === 'http:' && isLoopbackHost(url.hostname)
  if (
    !url ||
    (url.protocol !== 'https:' && !isPlain) ||
    url.port === '' ||
    url.origin !== advertise.replace(/\/$/, '')
  ) {
    const rule = 'must be https://host:port, or http:// with an address of this machine alone.'
    throw wrongOption('advertise', ` is ${JSON.stringify(advertise)}; it `, rule)
  }
  if (!isPlain && !tls) throw wrongOption('advertise', ' ', 'with https: needs tls, whose certificate it shows.')
}

/** Refuses what would let strangers in, and what could never have an effect. */
export function checkExposure({ authentication, tls, host }: ServiceOptions, address: string): void {
  if (!authentication && !isLoopback(address)) {
    const text = 'without authentication the service listens on loopback only (127.0.0.1, ::1 or localhost).'
    throw wrongOption('host', ` is "${host}"; `, text)
  }
  const asked = tls?.clientCaFile !== undefined
  if (authentication?.certificates && !asked) {
    throw wrongOption('authentication.certificates', ' ', 'needs tls.clientCaFile, the authorities that issue them.')
  }
  if (asked && !authentication?.certificates) {
    const rule = 'needs authentication.certificates, which says what a certificate grants.'
    throw wrongOption('tls.clientCaFile', ' ', rule)
  }
}
