import { hostname } from 'node:os'
import type { Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { pino, type Logger } from 'pino'
import type { Clock } from 'tenure'
import { openAccess } from './auth/access.ts'
import { createAuthenticator } from './auth/authenticator.ts'
import { isLoopback } from '@tenure/internal/loopback'
import { worldPermissions, readOptionFile } from './auth/option-files.ts'
import { addressOf } from './auth/loopback.ts'
import { Revocations } from './auth/revocations.ts'
import { readTls, warnOfExpiry, type Tls } from './auth/tls.ts'
import { systemClock } from './common/clock.ts'
import { openClustered, type SharedResources } from './clustered.ts'
import type { GroupsOptions } from './replication/active-term.ts'
import { openEmbedded } from './embedded.ts'
import { FairQueue } from './common/fair-queue.ts'
import type { GroupChange, Groups } from './groups/port.ts'
import type { LocalGroups } from './groups/local-groups.ts'
import { isReservedGroup } from './groups/reserved-groups.ts'
import type { Position } from './storage/position.ts'
import { buildApp } from './http/app.ts'
import { limitsFrom } from './http/limit-options.ts'
import { Limits } from './http/limits.ts'
import type { Service } from './http/service.ts'
import { logChanges, lostLogLines } from './operation/logging.ts'
import { logReplica, logReplicaErrors } from './operation/replica-log.ts'
import { Metrics } from './operation/metrics.ts'
import { Readiness } from './operation/readiness.ts'
import type { Replicas } from './replication/replica-views.ts'
import { checkExposure, checkServiceOptions, type ServiceOptions } from './options.ts'
import { Hub } from './watch/hub.ts'
import { WatchPresence } from './watch/presence.ts'
import { OpenResponses } from './http/watch/open-responses.ts'
import { version } from './version.ts'

/** How long a call in flight may continue after the service begins to stop. */
const graceMs = 5_000

/** A running service. */
export interface RunningService {
  readonly url: string
  /** Constant for the life of the data. */
  readonly clusterId: string
  /**
   * Reloads keys, certificates, and rights, and ends all streams. Clients that watch reconnect, and their rights are
   * checked again. If a file cannot be read, this rejects and changes nothing.
   */
  reload(): Promise<void>
  /** Ends streams, lets calls in flight finish for a few seconds, and closes the data. */
  close(): Promise<void>
}

/**
 * Starts the election service: on a data directory, or as one of several replicas on a shared server.
 *
 * @example
 * const service = await startService({ data: './elections' })
 * console.log(`curl ${service.url}/v1/groups`)
 */
export async function startService(options: ServiceOptions): Promise<RunningService> {
  checkServiceOptions(options)
  const { clock = systemClock, host = '127.0.0.1', port = 7070, authentication, tls: tlsOptions } = options
  const address = await addressOf(host)
  checkExposure(options, address)
  const authenticator = authentication ? await createAuthenticator(authentication, clock) : openAccess
  const authenticated = authentication !== undefined
  const limits = new Limits(limitsFrom(options.limits, authenticated), { clock, authenticated })
  let tls = tlsOptions && (await readTls(tlsOptions))
  const logger = options.logger ?? pino({ level: 'silent' })
  const here = ['localhost', '127.0.0.1', '[::1]', literal(host), literal(address)]
  const allowedHosts = options.allowedHosts ?? (authenticated ? undefined : here)
  const { service, opened } = await openService(options, { clock, authenticator, limits, tls, allowedHosts, logger })
  const { state, openResponses, revocations } = service
  const takesTokens = authentication?.jwt !== undefined || authentication?.tokenKeyFile !== undefined
  const { app, connections } = await buildApp(service)
  try {
    await opened.serve(service)
    const known = takesTokens ? revocations.start() : undefined
    // With several replicas, none may be active yet, and the start of this replica must not depend on that.
    if (options.store === undefined) await known
    await app.listen({ host: address, port })
  } catch (error) {
    revocations.close()
    await app.close()
    await opened.close()
    throw error
  }
  const { port: bound } = app.server.address() as AddressInfo
  if (takesTokens && !tls && !isLoopback(address)) {
    logger.warn('tokens are accepted without TLS: anyone who sees the traffic can use them')
  }
  await warnOfLooseFiles(logger, options)
  const watching = warnOfExpiry(logger, clock, () => tls)
  let closing: Promise<void> | undefined
  return {
    clusterId: state.clusterId,
    url: `${tls ? 'https' : 'http'}://${literal(host)}:${bound}`,
    async reload() {
      const next = tlsOptions && (await readTls(tlsOptions))
      const peerCa = await readPeerCa(options)
      await authenticator.reload()
      const authoritiesChanged = next?.ca !== tls?.ca
      if (next) (app.server as Server).setSecureContext(next)
      opened.renew?.(next, peerCa)
      tls = next
      await warnOfLooseFiles(logger, options)
      watching.look()
      openResponses.endPresent()
      // A connection was authenticated with the CAs at its handshake.
      if (authoritiesChanged) connections.closeAll()
    },
    close: () => (closing ??= close()),
  }

  async function close(): Promise<void> {
    watching.stop()
    revocations.close()
    const closed = app.close()
    openResponses.endAll()
    await connections.drain(closed, graceMs)
    await opened.close()
  }
}

/** Where the groups are stored: in a directory that this process owns, or on a server that several replicas share. */
interface OpenedData {
  readonly state: Groups
  readonly secret: string
  readonly position: Position
  readonly warnings: readonly string[]
  readonly replicas: Replicas
  /** Returns the groups if this process serves them. */
  local(): LocalGroups | undefined
  /** Begins to answer. */
  serve(sharing: SharedResources): void | Promise<void>
  /** Throws while this replica is not prepared to take over. Undefined if there can be no other replica. */
  checkCopy?(): void
  /** Uses these options for the connections between replicas. */
  renew?(tls: Tls | undefined, ca: string | undefined): void
  close(): Promise<void>
}

interface Opening {
  readonly logger: Logger
  /** Called with the groups before they answer any request. */
  onOpen(groups: LocalGroups): void
}

/** Opens the data, and the components that follow its changes. */
async function openService(
  options: ServiceOptions,
  given: Pick<Service, 'clock' | 'authenticator' | 'limits' | 'tls' | 'allowedHosts'> & { readonly logger: Logger },
) {
  const { clock, limits, logger } = given
  const policy = options.policy ?? { minTtlMs: 1_000, maxTtlMs: 3_600_000 }
  const metrics = new Metrics({
    version,
    minTtlMs: policy.minTtlMs,
    groups: () => Math.max(0, (opened.local()?.groupCount ?? 0) - revocations.count),
    groupBytes: () => opened.local()?.groupBytes ?? 0,
    maxGroupBytes: limits.options.maxGroupBytes,
    stalledMs: () => opened.local()?.stalledMs ?? 0,
    watchers: () => hub.watchers,
    waiting: () => limits.waitingCount,
    storeHealthy: () => health.isHealthy(),
    replicas: () => opened.replicas.ownView(),
    lostLogLines: () => lostLogLines(logger),
    ...(options.metricsGroups && { namedGroups: () => opened.local()?.groupMetrics() }),
  })
  const groups = {
    policy,
    implicitGroups: options.implicitGroups ?? true,
    maxGroups: options.maxGroups ?? 2_000_000,
    metricsGroups: options.metricsGroups,
    maxGroupBytes: limits.options.maxGroupBytes,
    groupBytesPerSubject: limits.options.groupBytesPerSubject,
    maxMembersPerGroup: 1_000,
    memberTtlMs: 600_000,
    chargeNewGroup: (subject: string) => limits.newGroup(subject),
    onWrite: (tookMs: number, durable: boolean) => metrics.storeWrite(tookMs / 1000, durable),
  }
  const log = logger.isLevelEnabled('info') ? logChanges(logger, clock) : undefined
  // Follows the local groups, so that only the active replica counts and logs.
  const onOpen = (local: LocalGroups) => {
    const onChange = (change: GroupChange) => {
      if (isReservedGroup(change.groupId)) return
      metrics.change(change)
      log?.(change)
    }
    local.listen({ onChange })
  }
  const opened = await (options.store === undefined
    ? openDirectory(options, options.data ?? '', groups, { ...given, onOpen })
    : openCluster(options, options.store, groups, { ...given, onOpen }))
  const { state, secret } = opened
  const health = new Readiness(state, clock)
  const isReady = async () => {
    await health.check()
    opened.checkCopy?.()
  }
  const readiness = new Readiness({ check: isReady }, clock)
  const { replicas } = opened
  const fairQueue = new FairQueue()
  const hub = new Hub(state, {
    secret,
    position: opened.position,
    maxWatchers: options.maxWatchers ?? 20_000,
    fairQueue,
    budget: limits,
    onDelivery: (isMade) => metrics.delivery(isMade),
  })
  for (const text of opened.warnings) logger.warn(text)
  const openResponses = new OpenResponses(clock)
  const revocations: Revocations = new Revocations({
    state,
    replicas,
    clock,
    onRevoked: () => openResponses.endOf((identity) => revocations.has(identity), 'your token has been revoked'),
  })
  const service = {
    ...given,
    state,
    secret,
    readiness,
    replicas,
    storageHealth: new Readiness(replicas, clock),
    hub,
    metrics,
    policy,
    openResponses,
    presence: new WatchPresence(state, clock),
    revocations,
    fairQueue,
    // Below this level the framework logs more than is useful.
    logger: logger.isLevelEnabled('warn') ? logger.child({}, { level: 'warn' }) : logger,
  }
  return { service, opened }
}

async function openDirectory(
  options: ServiceOptions,
  directory: string,
  groups: GroupsOptions,
  { clock, logger, onOpen }: Pick<Service, 'clock'> & Opening,
): Promise<OpenedData> {
  const { groups: state, storage } = await openEmbedded({
    ...groups,
    directory,
    clock,
    allowNetworkFilesystem: options.allowNetworkFilesystem,
    onOwnership: (failure) => logOwnership(logger, directory, failure),
  })
  onOpen(state)
  const { secret } = await storage.head()
  return {
    state,
    secret,
    position: state.position,
    warnings: storage.warnings,
    replicas: theOnlyReplica(state, clock),
    local: () => state,
    serve: () => state.serve(),
    close: () => state.close(),
  }
}

async function openCluster(
  options: ServiceOptions,
  store: string,
  groups: GroupsOptions,
  { clock, logger, tls, onOpen }: Pick<Service, 'clock' | 'tls'> & Opening,
): Promise<OpenedData> {
  const clustered = await openClustered({
    store,
    advertise: new URL(options.advertise ?? ''),
    clock,
    tls,
    ca: await readPeerCa(options),
    groups,
    onOpen,
    onEvent: logReplica(logger),
    onTrouble: logReplicaErrors(logger, clock),
  })
  return {
    state: clustered.groups,
    secret: clustered.secret,
    position: clustered.position,
    warnings: clustered.warnings,
    replicas: clustered.replicas,
    checkCopy: () => clustered.checkCopy(),
    local() {
      const activeReplica = clustered.activeReplica()
      return activeReplica.kind === 'local' ? activeReplica.groups : undefined
    },
    serve: (sharing) => clustered.serve(sharing),
    renew: (nextTls, nextCa) => clustered.renew(nextTls, nextCa),
    close: () => clustered.close(),
  }
}

async function readPeerCa({ advertiseCaFile: file }: ServiceOptions): Promise<string | undefined> {
  return file === undefined ? undefined : readOptionFile('advertiseCaFile', file)
}

/** With a data directory there is exactly one replica. */
function theOnlyReplica(state: LocalGroups, clock: Clock): Replicas {
  const name = hostname()
  const active = { replica: name, address: undefined, term: state.position.term, sinceMs: clock.wallMs() }
  const view = { active, followers: [] }
  return { name, storage: 'directory', view: async () => view, ownView: () => view, check: () => state.check() }
}

function literal(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

async function warnOfLooseFiles(logger: Logger, { tls, authentication }: ServiceOptions): Promise<void> {
  if (tls && (await worldPermissions(tls.keyFile)).read) {
    const { keyFile: file } = tls
    logger.warn({ file }, `any user on this machine can read the service's private key. Run: chmod 600 ${file}`)
  }
  const keys = authentication?.tokenKeyFile ?? authentication?.jwt?.keysFile
  const writable = [
    [keys, 'can add a key and authenticate with it'],
    [tls?.clientCaFile, 'can add a CA and authenticate with it'],
    [authentication?.certificates?.rightsFile, 'can grant themselves every right'],
  ] as const
  for (const [file, harm] of writable) {
    if (file === undefined || !(await worldPermissions(file)).write) continue
    logger.warn({ file }, `any user on this machine ${harm}. Run: chmod 644 ${file}`)
  }
}

function logOwnership(logger: Logger, directory: string, failure: Error | undefined): void {
  if (!failure) return logger.info(`the data directory ${directory} belongs to this service again`)
  logger.error(
    { err: failure },
    `the data directory ${directory} may be lost: nothing is granted or renewed from 5 s after the last proof`,
  )
}
