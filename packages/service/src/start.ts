import type { AddressInfo } from 'node:net'
import { pino, type Logger } from 'pino'
import type { Clock } from 'tenure'
import { open, type Authenticator } from './access.ts'
import { systemClock } from './clock.ts'
import { EmbeddedState } from './embedded/embedded-state.ts'
import type { Change } from './feed.ts'
import { Hub } from './hub.ts'
import { Metrics } from './metrics.ts'
import { buildApp, type Service } from './service.ts'
import type { Policy } from './state.ts'
import { Streams } from './streams.ts'
import { leaderOf } from './views.ts'

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
  readonly afterRestore?: boolean | undefined
  readonly authenticator?: Authenticator | undefined
  readonly tls?: Service['options']['tls']
  readonly logger?: Logger | undefined
  readonly clock?: Clock | undefined
}

/** A service that runs. */
export interface RunningService {
  readonly url: string
  /** Reads keys, certificates and rights again. */
  reload(): Promise<void>
  /** Ends streams, lets calls under way finish, and closes the data. */
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
  const policy = options.policy ?? { minTtlMs: 1_000, maxTtlMs: 3_600_000 }
  const state = await EmbeddedState.open({
    directory: options.data,
    clock,
    policy,
    implicitGroups: options.implicitGroups ?? true,
    maxGroups: options.maxGroups ?? 2_000_000,
    maxMembersPerGroup: 1_000,
    memberTtlMs: 600_000,
    afterRestore: options.afterRestore ?? false,
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
  const metrics = new Metrics({ groups: () => state.groupCount, watchers: () => hub.watchers })
  state.follow({ wantsRenewals: () => false, onChange: (change) => metrics.change(change) })
  const streams = new Streams()
  const authenticator = options.authenticator ?? open
  const app = await buildApp({
    state,
    hub,
    clock,
    metrics,
    streams,
    policy,
    authenticator,
    logger: options.logger ?? pino({ level: 'silent' }),
    options: { bodyLimit: 65_536, batchBodyLimit: 4 * 2 ** 20, maxConnections: 30_000, tls: options.tls },
  })
  await app.listen({ host, port })
  const { port: bound } = app.server.address() as AddressInfo
  return {
    url: `${options.tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    reload: () => authenticator.reload(),
    async close() {
      streams.endAll()
      await app.close()
      await state.close()
    },
  }
}
