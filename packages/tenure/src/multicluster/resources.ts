import type { CallOptions } from '../engine/lease-store.ts'
import type { MultiClusterLease, MultiClusterLeaseSpec, SpecPatch, StatusPatch } from './protocol/resource-types.ts'

/** Identifies one resource. */
export interface ResourceKey {
  readonly namespace: string
  readonly name: string
}

/** One resource, all resources of a namespace, or all resources. */
export type ResourceScope = ResourceKey | { readonly namespace?: string | undefined; readonly name?: undefined }

/** An event of a watch. The full state comes first and whenever the watch restarts, followed by each change. */
export type ResourceChange =
  | { readonly type: 'all'; readonly resources: readonly MultiClusterLease[] }
  | { readonly type: 'put' | 'deleted'; readonly resource: MultiClusterLease }

/** Identifies one state of one resource. */
export type ResourceVersion = ResourceKey & Pick<MultiClusterLease, 'uid' | 'generation' | 'resourceVersion'>

/** Options of {@link Resources.watch}. */
export interface ResourceWatchOptions extends CallOptions {
  /**
   * Whether the caller already has this state of a resource, so that a change to it need not be shown. Each write is
   * shown by its answer and by the watch, and reading an event takes longer than asking for it.
   */
  readonly isKnown?: ((version: ResourceVersion) => boolean) | undefined
}

/**
 * The resources of a cluster in its API server, as the store and the controller use them. A call that rejects may have
 * been applied, or may be applied later.
 */
export interface Resources {
  /** Reads from the API server, never from a cache. */
  get(key: ResourceKey, call: CallOptions): Promise<MultiClusterLease | undefined>
  /** Returns undefined if the resource already exists. */
  create(
    key: ResourceKey,
    spec: MultiClusterLeaseSpec,
    election: string | undefined,
    call: CallOptions,
  ): Promise<MultiClusterLease | undefined>
  /** Returns undefined if the resource does not exist. */
  patchSpec(key: ResourceKey, patch: SpecPatch, call: CallOptions): Promise<MultiClusterLease | undefined>
  /**
   * Returns undefined if the resource does not exist, is no longer at version `over`, or has another uid. Without
   * `over`, the current resource is patched even if it was deleted and recreated, because an API server does not
   * compare the uid here. So only answers may be written without `over`, because ids bind them to their requests.
   */
  patchStatus(
    key: ResourceKey & { readonly uid: string },
    patch: StatusPatch,
    over: string | undefined,
    call: CallOptions,
  ): Promise<MultiClusterLease | undefined>
  /**
   * Ends or rejects when it cannot continue, and starts with the full state when it is reopened; see `keepWatching`. A
   * change may be shown twice, even if `isKnown`.
   */
  watch(of: ResourceScope, options: ResourceWatchOptions): AsyncIterable<ResourceChange>
}
