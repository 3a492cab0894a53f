import { hostname } from 'node:os'
import type { Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { pino, type Logger } from 'pino'
import type { Clock } from 'tenure'
import { open } from './auth/access.ts'
import { createAuthenticator } from './auth/authenticator.ts'
import { isLoopback } from '@tenure/internal/loopback'
import { openToAll, readNamed } from './auth/files.ts'
import { addressOf } from './auth/loopback.ts'
import { Revocations } from './auth/revocations.ts'
import { readTls, warnOfEnd, type Tls } from './auth/tls.ts'
import { systemClock } from './clock.ts'
import { openClustered, type Sharing } from './clustered.ts'
import type { GroupsOptions } from './replication/active-term.ts'
import { openEmbedded } from './embedded.ts'
import { FairQueue } from './fair-queue.ts'
import type { Groups } from './groups/groups.ts'
import type { LocalGroups } from './groups/local-groups.ts'
import { isReservedGroup } from './groups/reserved-groups.ts'
import type { Position } from './storage/position.ts'
import { buildApp } from './http/app.ts'
import { limitsFrom } from './http/limit-options.ts'
import { Limits } from './http/limits.ts'
import type { Service } from './http/service.ts'
import { logChanges, lostLines } from './operation/logging.ts'
import { logReplica, logTrouble } from './operation/replica-log.ts'
import { Metrics } from './operation/metrics.ts'
import { Readiness } from './operation/readiness.ts'
import type { Replicas } from './operation/replicas.ts'
import { checkExposure, checkServiceOptions, type ServiceOptions } from './options.ts'
import type { LmdbStorage } from './storage/lmdb-storage.ts'
import type { Change } from './watch/feed.ts'
import { Hub } from './watch/hub.ts'
import { Presence } from './watch/presence.ts'
import { Streams } from './watch/streams.ts'

/** How long a call in flight may take once the service stops. */
const graceMs = 5_000

/** A running service. */
export interface RunningService {
  readonly url: string
  /** Constant for the life of the data. */
  readonly clusterId: string
  /**
   * Reloads keys, certificates, and rights, and ends all streams. Clients that watch reconnect, and their rights are
   * checked again. If a file cannot be read, it rejects and keeps everything as it was.
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
  const authenticator = authentication ? await createAuthenticator(authentication, clock) : open
  const authenticated = authentication !== undefined
  const limits = new Limits(limitsFrom(options.limits, authenticated), { clock, authenticated })
  let tls = tlsOptions && (await readTls(tlsOptions))
  const logger = options.logger ?? pino({ level: 'silent' })
  const here = ['localhost', '127.0.0.1', '[::1]', literal(host), literal(address)]
  const allowedHosts = options.allowedHosts ?? (authenticated ? undefined : here)
  const { service, opened } = await openService(options, { clock, authenticator, limits, tls, allowedHosts, logger })
  const { state, streams, revocations } = service
  const takesTokens = authentication?.jwt !== undefined || authentication?.tokenKeyFile !== undefined
  const { app, connections } = await buildApp(service)
  try {
    await opened.serve(service)
    const known = takesTokens ? revocations.start() : undefined
    // With several replicas, none may be active yet, and starting this one must not depend on that.
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
  const watching = warnOfEnd(logger, clock, () => tls)
  let closing: Promise<void> | undefined
  return {
    clusterId: state.clusterId,
    url: `${tls ? 'https' : 'http'}://${literal(host)}:${bound}`,
    async reload() {
      const next = tlsOptions && (await readTls(tlsOptions))
      const linkCa = await readLinkCa(options)
      await authenticator.reload()
      const authoritiesChanged = next?.ca !== tls?.ca
      if (next) (app.server as Server).setSecureContext(next)
      opened.renew?.(next, linkCa)
      tls = next
      await warnOfLooseFiles(logger, options)
      watching.look()
      streams.endPresent()
      // A connection was authenticated with the CAs at its handshake.
      if (authoritiesChanged) connections.closeAll()
    },
    close: () => (closing ??= close()),
  }

  async function close(): Promise<void> {
    watching.stop()
    revocations.close()
    const closed = app.close()
    streams.endAll()
    await connections.drain(closed, graceMs)
    await opened.close()
  }
}

/** Where the groups are: in a directory of this process, or on a server that several replicas share. */
interface Opened {
  readonly state: Groups
  readonly secret: string
  readonly position: Position
  readonly warnings: readonly string[]
  readonly replicas: Replicas
  /** Returns the groups if this process answers for them. */
  local(): LocalGroups | undefined
  /** Begins to answer. */
  serve(sharing: Sharing): void | Promise<void>
  /** Applies to the connections between replicas. */
  renew?(tls: Tls | undefined, ca: string | undefined): void
  close(): Promise<void>
}

interface Opening {
  readonly logger: Logger
  /** Called with the groups before they answer. */
  onOpen(groups: LocalGroups): void
}

/** Opens the data, and everything that follows its changes. */
async function openService(
  options: ServiceOptions,
  given: Pick<Service, 'clock' | 'authenticator' | 'limits' | 'tls' | 'allowedHosts'> & { readonly logger: Logger },
) {
  const { clock, limits, logger } = given
  const policy = options.policy ?? { minTtlMs: 1_000, maxTtlMs: 3_600_000 }
  const metrics = new Metrics({
    minTtlMs: policy.minTtlMs,
    groups: () => Math.max(0, (opened.local()?.groupCount ?? 0) - revocations.count),
    groupBytes: () => opened.local()?.groupBytes ?? 0,
    maxGroupBytes: limits.options.maxGroupBytes,
    stalledMs: () => opened.local()?.stalledMs ?? 0,
    watchers: () => hub.watchers,
    waiting: () => limits.waitingCount,
    storeHealthy: () => readiness.isHealthy(),
    replicas: () => opened.replicas.ownView(),
    lostLogLines: () => lostLines(logger),
    ...(options.metricsGroups && { namedGroups: () => opened.local()?.figures() }),
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
  // Follows the local groups, so that of several replicas only the active one counts and logs.
  const onOpen = (local: LocalGroups) => {
    const onChange = (change: Change) => {
      if (isReservedGroup(change.groupId)) return
      metrics.change(change)
      log?.(change)
    }
    local.follow({ onChange })
  }
  const opened = await (options.store === undefined
    ? openDirectory(options, options.data ?? '', groups, { ...given, onOpen })
    : openCluster(options, options.store, groups, { ...given, onOpen }))
  const { state, secret } = opened
  const readiness = new Readiness(state, clock)
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
  const streams = new Streams(clock)
  const revocations: Revocations = new Revocations({
    state,
    replicas,
    clock,
    onRevoked: () => streams.endOf((identity) => revocations.has(identity), 'your token has been revoked'),
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
    streams,
    presence: new Presence(state, clock),
    revocations,
    fairQueue,
    // Below that level the framework logs more than anyone wants.
    logger: logger.isLevelEnabled('warn') ? logger.child({}, { level: 'warn' }) : logger,
  }
  return { service, opened }
}

async function openDirectory(
  options: ServiceOptions,
  directory: string,
  groups: GroupsOptions,
  { clock, logger, onOpen }: Pick<Service, 'clock'> & Opening,
): Promise<Opened> {
  const { groups: state, storage } = await openEmbedded({
    ...groups,
    directory,
    clock,
    afterRestore: options.afterRestore ?? false,
    allowNetworkFilesystem: options.allowNetworkFilesystem,
    onOwnership: (failure) => logOwnership(logger, directory, failure),
  })
  if (options.afterRestore) logRestore(logger, storage)
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
): Promise<Opened> {
  const clustered = await openClustered({
    store,
    advertise: new URL(options.advertise ?? ''),
    clock,
    tls,
    ca: await readLinkCa(options),
    groups,
    onOpen,
    onEvent: logReplica(logger),
    onTrouble: logTrouble(logger, clock),
  })
  return {
    state: clustered.groups,
    secret: clustered.secret,
    position: clustered.position,
    warnings: clustered.warnings,
    replicas: clustered.replicas,
    local() {
      const place = clustered.place()
      return place.kind === 'here' ? place.groups : undefined
    },
    serve: (sharing) => clustered.serve(sharing),
    renew: (nextTls, nextCa) => clustered.renew(nextTls, nextCa),
    close: () => clustered.close(),
  }
}

async function readLinkCa({ advertiseCaFile: file }: ServiceOptions): Promise<string | undefined> {
  return file === undefined ? undefined : readNamed('advertiseCaFile', file)
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
  if (tls && (await openToAll(tls.keyFile)).read) {
    logger.warn({ file: tls.keyFile }, "every user of this machine can read the service's private key: chmod 600")
  }
  const keys = authentication?.tokenKeyFile ?? authentication?.jwt?.keysFile
  const writable = [
    [keys, 'can authenticate with a key of its own'],
    [tls?.clientCaFile, 'can authenticate with a CA of its own'],
    [authentication?.certificates?.rightsFile, 'can grant itself every right'],
  ] as const
  for (const [file, harm] of writable) {
    if (file === undefined || !(await openToAll(file)).write) continue
    logger.warn({ file }, `every user of this machine ${harm}: chmod 644`)
  }
}

function logOwnership(logger: Logger, directory: string, failure: Error | undefined): void {
  if (!failure) return logger.info(`the data directory ${directory} belongs to this service again`)
  logger.error(
    { err: failure },
    `the data directory ${directory} may be lost: nothing is granted or renewed from 5 s after the last proof`,
  )
}

function logRestore(logger: Logger, { isNew, hasSkipped }: LmdbStorage): void {
  const done = hasSkipped
    ? 'The data was restored from a backup: a million terms are skipped in every group.'
    : 'The data was restored from a backup: terms were already skipped before, and are not skipped again.'
  const what = isNew ? 'The data directory is new: there is nothing to restore, and no terms are skipped.' : done
  logger.warn(`${what} This option will be removed: run "tenure restore" once instead.`)
}
