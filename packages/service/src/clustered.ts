import { processName } from '@tenure/internal/process-name'
import { isLoopbackHost } from '@tenure/internal/loopback'
import { ClusterGroups } from './replication/cluster-groups.ts'
import { ClusterReplicas } from './replication/cluster-replicas.ts'
import { PeerServer } from './replication/peer-server.ts'
import { protocol } from './replication/peer-authentication.ts'
import type { ActiveReplica } from './replication/active-replica.ts'
import { Replica, type ReplicaEvent } from './replication/replica.ts'
import type { GroupsOptions } from './replication/active-term.ts'
import type { Tls } from './auth/tls.ts'
import type { Clock } from 'tenure'
import { wrongOption } from './common/errors.ts'
import type { Service } from './http/service.ts'
import type { LocalGroups } from './groups/local-groups.ts'
import type { Replicas } from './replication/replica-views.ts'
import { openSharedStorage } from './storage/open-storage.ts'
import { positionOf, type Position } from './storage/position.ts'

/** The options of {@link openClustered}. */
export interface ClusteredOptions {
  /** The URL of the storage that all replicas share. */
  readonly store: string
  /** Where other replicas reach this one. */
  readonly advertise: URL
  readonly clock: Clock
  /** The TLS files for connections between replicas. Undefined if these do not use TLS. */
  readonly tls: Tls | undefined
  /** The CAs of the other replicas' certificates. Default: the CAs that Node trusts. */
  readonly ca: string | undefined
  readonly groups: GroupsOptions
  /** Called with the groups of each active term before they answer any request. */
  readonly onOpen: (groups: LocalGroups) => void
  readonly onEvent: (event: ReplicaEvent) => void
  readonly onTrouble: (error: unknown) => void
}

/** State shared between callers on followers and callers on this replica. */
export type SharedResources = Pick<Service, 'hub' | 'fairQueue' | 'limits'>

/** This replica's part in a cluster: the groups that it serves, the other replicas, and the connections to them. */
export interface Clustered {
  readonly groups: ClusterGroups
  readonly secret: string
  readonly position: Position
  readonly warnings: readonly string[]
  readonly replicas: Replicas
  /** Throws while this replica is not prepared to take over. */
  checkCopy(): void
  /** Returns the active replica, if this replica knows it. */
  activeReplica(): ActiveReplica
  /** Accepts calls from other replicas, and takes part in the election of the active replica. */
  serve(sharing: SharedResources): Promise<void>
  /** Uses these options for connections between replicas from now on. */
  renew(tls: Tls | undefined, ca: string | undefined): void
  /** Hands over if this replica is active, then closes everything. */
  close(): Promise<void>
}

/**
 * Opens groups on a server that several replicas share. The active replica answers, and the others forward calls to it.
 */
export async function openClustered(options: ClusteredOptions): Promise<Clustered> {
  const { clock, advertise, store } = options
  let { tls, ca } = options
  const name = processName(clock.randomId())
  const shared = await openSharedStorage(store, { newId: () => clock.randomId(), clock })
  try {
    const head = await shared.storage.head()
    const { clusterId, secret } = head
    const position = positionOf(head)
    let servingSinceMs: number | undefined
    const replica = new Replica({
      storage: shared.storage,
      leases: shared.leases,
      clock,
      address: advertise.origin,
      replica: name,
      version: protocol,
      groups: options.groups,
      restores: head.restores,
      observer: {
        onEvent: (event) => {
          if (event.type === 'error' || event.type === 'renew-failed') options.onTrouble(event.error)
        },
      },
      onOpen: options.onOpen,
      onEvent: (event) => {
        if (event.type === 'serving') servingSinceMs = clock.wallMs()
        options.onEvent(event)
      },
    })
    const self = { replica: name, address: advertise.origin }
    const peer = { clusterId, secret: () => secret, activeReplicas: replica, terms: replica.terms, clock }
    const groups = new ClusterGroups({
      ...peer,
      position,
      ca: () => ca,
      self,
      onTrouble: options.onTrouble,
      onHeard: (told) => replica.noteConfirmed(told),
    })
    let server: PeerServer | undefined
    const replicas = new ClusterReplicas({
      self,
      kind: /^etcds?:/i.test(store) ? 'etcd' : 'postgres',
      activeReplicas: replica,
      storage: shared.storage,
      server: () => server,
      clientFor: (activeReplica) => groups.clientFor(activeReplica),
      checkGroups: () => groups.check(),
    })
    return {
      groups,
      secret,
      position,
      warnings: shared.warnings,
      replicas,
      checkCopy: () => replica.checkCopy(),
      activeReplica: () => replica.now(),
      async serve({ hub, fairQueue, limits }) {
        server = new PeerServer({
          ...peer,
          ...listenerOf(advertise),
          tls: peerTls(advertise, tls),
          fairQueue,
          budget: limits,
          changes: {
            feed: hub.feed,
            listen: (listener) => groups.listen(listener),
            textsOf: (groupId, term) => groups.textsOf(groupId, term),
            whenFrom: (activeReplica) => groups.changes.whenFrom(activeReplica),
          },
          active() {
            const activeReplica = replica.now()
            return activeReplica.kind === 'local'
              ? { ...self, term: activeReplica.term, sinceMs: servingSinceMs }
              : undefined
          },
        })
        await server.listen()
        groups.start()
        replica.start()
      },
      renew(nextTls, nextCa) {
        tls = nextTls
        ca = nextCa
        const shown = peerTls(advertise, tls)
        if (shown) server?.renew(shown)
      },
      async close() {
        await replica.stop()
        await groups.close()
        await server?.close()
        await shared.close()
      },
    }
  } catch (error) {
    await shared.close()
    throw error
  }
}

/**
 * Other replicas authenticate with the secret, not with certificates. Clients may need TLS even if the replicas, all on
 * this machine, do not.
 */
function peerTls({ protocol }: URL, tls: Tls | undefined): Tls | undefined {
  return tls && protocol === 'https:' ? { cert: tls.cert, key: tls.key } : undefined
}

/** A host name may belong to a proxy or a Kubernetes Service. In that case, listen on all addresses of this machine. */
function listenerOf({ hostname: host, port, protocol }: URL): { readonly host: string; readonly port: number } {
  if (port === '') throw wrongOption('advertise', ' ', `must have a port, as in ${protocol}//${host}:7071.`)
  const isHere = isLoopbackHost(host)
  return {
    host: isHere ? (host === 'localhost' ? '127.0.0.1' : host.replace(/[[\]]/g, '')) : 'all',
    port: Number(port),
  }
}
