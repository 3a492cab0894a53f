import { AsyncQueue } from '@tenure/internal/async-queue'
import { isObject } from '@tenure/internal/objects'
import type {
  MultiClusterLease,
  MultiClusterLeaseSpec,
  MultiClusterLeaseStatus,
  SpecPatch,
  StatusPatch,
} from './protocol/resource-types.ts'
import type { ResourceChange, ResourceKey, Resources, ResourceScope, ResourceWatchOptions } from './resources.ts'

/** In-memory resources, with operations that an operator could perform. */
export interface MemoryResources extends Resources {
  delete(key: ResourceKey): void
  /** All resources, as a backup contains them. */
  backup(): readonly MultiClusterLease[]
  /** Replaces the current state with a backup. Versions also go back, and watches end. */
  restore(backup: readonly MultiClusterLease[]): void
}

interface ResourceWatcher {
  notice(change: ResourceChange | undefined): void
}

/** The resources of a cluster without an API server, with the same behavior. For tests and simulations. */
export function memoryResources(newUid: () => string): MemoryResources {
  let resources = new Map<string, MultiClusterLease>()
  let writes = 0
  const watchers = new Set<ResourceWatcher>()

  const tell = (change: ResourceChange | undefined) => {
    for (const watcher of watchers) watcher.notice(change)
  }

  const put = (resource: MultiClusterLease): MultiClusterLease => {
    const written = { ...resource, resourceVersion: String(++writes) }
    resources.set(idOf(resource), written)
    tell({ type: 'put', resource: written })
    return written
  }

  const shownTo = (of: ResourceScope) => (resource: MultiClusterLease) =>
    (of.namespace === undefined || of.namespace === resource.namespace) &&
    (of.name === undefined || of.name === resource.name)

  async function* watch(
    of: ResourceScope,
    options: ResourceWatchOptions,
  ): AsyncGenerator<ResourceChange, void, undefined> {
    const { signal, isKnown } = options
    const isShown = shownTo(of)
    const all = { type: 'all', resources: [...resources.values()].filter((resource) => isShown(resource)) } as const
    const news = new AsyncQueue<ResourceChange>('all', all)
    const watcher: ResourceWatcher = {
      notice(change) {
        if (!change) return news.end()
        if (change.type === 'all' || isShown(change.resource)) news.put(change)
      },
    }
    const onAbort = () => news.end()
    watchers.add(watcher)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      while (!signal.aborted) {
        const change = news.take()
        if (change?.type === 'put' && isKnown?.(change.resource)) continue
        if (change) yield change
        else if (news.isEnded) return
        else await news.ready()
      }
    } finally {
      watchers.delete(watcher)
      signal.removeEventListener('abort', onAbort)
    }
  }

  return {
    get: async (key) => resources.get(idOf(key)),
    async create({ namespace, name }, spec, election) {
      if (resources.has(idOf({ namespace, name }))) return undefined
      const begun = { namespace, name, uid: newUid(), generation: 1, resourceVersion: '', election }
      return put({ ...begun, spec: merged({ requests: {} }, spec) as MultiClusterLeaseSpec, status: { answers: {} } })
    },
    async patchSpec(key: ResourceKey, patch: SpecPatch) {
      const found = resources.get(idOf(key))
      if (!found) return undefined
      const spec = merged(found.spec, patch) as MultiClusterLeaseSpec
      if (isSame(spec, found.spec)) return found
      return put({ ...found, generation: found.generation + 1, spec })
    },
    async patchStatus({ uid, ...key }, patch: StatusPatch, over: string | undefined) {
      const found = resources.get(idOf(key))
      if (!found || (over !== undefined && over !== found.resourceVersion)) return undefined
      const status = merged(found.status, patch) as MultiClusterLeaseStatus
      const written = isSame(status, found.status) ? found : put({ ...found, status })
      // Like an API server, this does not compare the uid before it writes.
      return written.uid === uid ? written : undefined
    },
    watch,
    delete(key) {
      const resource = resources.get(idOf(key))
      if (!resource) return
      resources.delete(idOf(key))
      tell({ type: 'deleted', resource: { ...resource, resourceVersion: String(++writes) } })
    },
    backup: () => [...resources.values()],
    restore(backup) {
      resources = new Map(backup.map((resource) => [idOf(resource), resource]))
      writes = Math.max(0, ...backup.map(({ resourceVersion }) => Number(resourceVersion)))
      tell(undefined)
    },
  }
}

function idOf({ namespace, name }: ResourceKey): string {
  return `${namespace}/${name}`
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

/** Applies a JSON merge patch (RFC 7396). Undefined values are not sent, so they change nothing. */
function merged(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const result: Record<string, unknown> = isObject(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else if (value !== undefined) result[name] = merged(result[name], value)
  }
  return result
}
