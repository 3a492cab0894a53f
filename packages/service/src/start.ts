import type { AddressInfo } from 'node:net'
import { pino, type Logger } from 'pino'
import type { Clock } from 'tenure'
import type { Server } from 'node:https'
import { open } from './access.ts'
import { createAuthenticator, type AuthenticationOptions } from './auth/authenticator.ts'
import { addressOf, isLoopback } from './auth/loopback.ts'
import { readTls, type TlsOptions } from './auth/tls.ts'
import { systemClock } from './clock.ts'
import { OpenConnections } from './closing.ts'
import { EmbeddedState } from './embedded/embedded-state.ts'
import type { Change } from './feed.ts'
import { Hub } from './hub.ts'
import { logChanges } from './logging.ts'
import { Limits, limitsFrom, type LimitOptions } from './limits.ts'
import { Metrics } from './metrics.ts'
import { buildApp } from './service.ts'
import type { ElectionState, Policy } from './state.ts'
import { Streams } from './streams.ts'
import { leaderOf } from './views.ts'

/** How long a call under way may take once the service stops. */
const graceMs = 5_000
/** How long somebody who asks for figures waits for the store. */
const patienceMs = 2_000

/** What {@link startService} takes. */
export interface ServiceOptions {
  /** The data directory. Made if it is not there. */
  readonly data: string
  /** Default: 127.0.0.1. */
  readonly host?: string | undefined
  /** Default: 7070; 0 takes a free one. */
  readonly port?: number | undefined
  readonly policy?: Policy | undefined
  readonly implicitGroups?: boolean | undefined
  readonly maxGroups?: number | undefined
  readonly maxWatchers?: number | undefined
  readonly limits?: Partial<LimitOptions> | undefined
  /**
   * Host names, without ports, by which the service may be asked. Default without authentication: localhost and the
   * address that it listens on, so that no web page reaches it under a name of its own. With authentication: all.
   */
  readonly allowedHosts?: readonly string[] | undefined
  readonly afterRestore?: boolean | undefined
  /** Who may do what. Without it everybody may do everything, and only this machine can reach the service. */
  readonly authentication?: AuthenticationOptions | undefined
  readonly tls?: TlsOptions | undefined
  readonly logger?: Logger | undefined
  readonly clock?: Clock | undefined
}

/** A service that runs. */
export interface RunningService {
  readonly url: string
  /** Constant for the life of the data. */
  readonly clusterId: string
  /**
   * Reads keys, certificates and rights again, and ends all streams: whoever watches comes back, and is judged anew.
   * What cannot be read leaves everything as it was, and rejects.
   */
  reload(): Promise<void>
  /** Ends streams, lets calls under way finish for a few seconds, and closes the data. */
  close(): Promise<void>
}

/**
 * Starts the election service on a data directory.
 *
 * @example
 * const service = await startService({ data: './elections' })
 * console.log(`curl ${service.url}/v1/groups`)
 */
export async function startService(options: ServiceOptions): Promise<RunningService> {
  const { clock = systemClock, host = '127.0.0.1', port = 7070 } = options
  const { authentication, tls: tlsOptions } = options
  const address = await addressOf(host)
  checkExposure(options, address)
  const authenticator = authentication ? await createAuthenticator(authentication, clock) : open
  const authenticated = authentication !== undefined
  const limits = new Limits(limitsFrom(options.limits, authenticated), { clock, authenticated })
  let tls = tlsOptions && (await readTls(tlsOptions))
  const policy = options.policy ?? { minTtlMs: 1_000, maxTtlMs: 3_600_000 }
  const metrics = new Metrics({
    groups: () => state.groupCount,
    watchers: () => hub.watchers,
    waiting: () => limits.waitingCount,
    storeHealthy: () => isHealthy(state, clock),
  })
  const state = await EmbeddedState.open({
    directory: options.data,
    clock,
    policy,
    implicitGroups: options.implicitGroups ?? true,
    maxGroups: options.maxGroups ?? 2_000_000,
    maxMembersPerGroup: 1_000,
    memberTtlMs: 600_000,
    afterRestore: options.afterRestore ?? false,
    onWrite: (tookMs, durable) => metrics.storeWrite(tookMs / 1000, durable),
  })
  const describe = (change: Change) => ({
    type: change.type,
    group_id: change.groupId,
    term: change.lease.term,
    leader_node_id: change.lease.nodeId,
    ...(change.reason && { reason: change.reason }),
    ...(change.type === 'LEADER_LOST'
      ? { leader: null, previous_leader: leaderOf(change.lease, change.atMs) }
      : { leader: leaderOf(change.lease, change.atMs) }),
    ts_ms: change.atMs,
  })
  const hub = new Hub(state, {
    id: clock.randomId().replaceAll('-', '').slice(0, 16),
    maxWatchers: options.maxWatchers ?? 20_000,
    describe,
  })
  const logger = options.logger ?? pino({ level: 'silent' })
  if (options.afterRestore) {
    logger.warn(
      'The data come from a backup: a million terms are skipped in every group. Start without this next time.',
    )
  }
  state.follow({ wantsRenewals: () => false, onChange: (change) => metrics.change(change) })
  if (logger.isLevelEnabled('info')) state.follow({ wantsRenewals: () => false, onChange: logChanges(logger) })
  const streams = new Streams(clock)
  const literal = (name: string) => (name.includes(':') ? `[${name}]` : name)
  const here = ['localhost', '127.0.0.1', '[::1]', literal(host), literal(address)]
  const allowedHosts = options.allowedHosts ?? (authenticated ? undefined : here)
  const app = await buildApp({
    state,
    hub,
    clock,
    metrics,
    streams,
    policy,
    authenticator,
    limits,
    // The framework tells what nobody asked for below that.
    logger: logger.isLevelEnabled('warn') ? logger.child({}, { level: 'warn' }) : logger,
    options: { bodyLimit: 65_536, batchBodyLimit: 4 * 2 ** 20, tls, allowedHosts },
  })
  const connections = new OpenConnections(app.server, clock)
  try {
    await app.listen({ host: address, port })
  } catch (error) {
    await app.close()
    await state.close()
    throw error
  }
  const { port: bound } = app.server.address() as AddressInfo
  if (authentication?.jwt && !tls && !isLoopback(address)) {
    logger.warn('tokens are taken without TLS: whoever sees the traffic can use them')
  }
  let closing: Promise<void> | undefined
  return {
    clusterId: state.clusterId,
    url: `${tls ? 'https' : 'http'}://${literal(host)}:${bound}`,
    async reload() {
      const next = tlsOptions && (await readTls(tlsOptions))
      await authenticator.reload()
      const authoritiesChanged = next?.ca !== tls?.ca
      if (next) (app.server as Server).setSecureContext(next)
      tls = next
      streams.endPresent()
      // A connection was judged by the authorities of its handshake.
      if (authoritiesChanged) connections.closeAll()
    },
    close: () => (closing ??= close()),
  }

  async function close(): Promise<void> {
    const closed = app.close()
    streams.endAll()
    await connections.drain(closed, graceMs)
    await state.close()
  }
}

/** A store that does not answer is not healthy either. */
function isHealthy(state: ElectionState, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(patienceMs, () => resolve(false), { background: true })
    const answer = (healthy: boolean) => {
      timer.cancel()
      resolve(healthy)
    }
    state.check().then(
      () => answer(true),
      () => answer(false),
    )
  })
}

/** What would let strangers in is refused, and so is what could never have an effect. */
function checkExposure({ authentication, tls, host }: ServiceOptions, address: string): void {
  if (!authentication && !isLoopback(address)) {
    const text = 'without authentication the service listens on loopback only (127.0.0.1, ::1 or localhost).'
    throw new TypeError(`host is "${host}"; ${text}`)
  }
  const asked = tls?.clientCaFile !== undefined
  if (authentication?.certificates && !asked) {
    throw new TypeError('authentication.certificates needs tls.clientCaFile, the authorities that issue them.')
  }
  if (asked && !authentication?.certificates) {
    throw new TypeError('tls.clientCaFile needs authentication.certificates, which says what a certificate grants.')
  }
}
