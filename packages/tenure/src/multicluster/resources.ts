import type { CallOptions } from '../engine/lease-store.ts'
import type {
  MultiClusterAnswer,
  MultiClusterLease,
  MultiClusterLeaseSpec,
  MultiClusterLeaseStatus,
  MultiClusterRequest,
} from './resource.ts'

/** Identifies one resource. */
export interface ResourceKey {
  readonly namespace: string
  readonly name: string
}

/** One resource, all of a namespace, or all. */
export type ResourceScope = ResourceKey | { readonly namespace?: string | undefined; readonly name?: undefined }

/** A merge patch: omitted fields stay, null removes a field, at every depth. */
export type Patch<T> = { readonly [Field in keyof T]?: PatchValue<T[Field]> | null }
type PatchValue<Value> = Value extends readonly unknown[] ? Value : Value extends object ? Patch<Value> : Value

/** The changes of a candidate. */
export interface SpecPatch extends Patch<Omit<MultiClusterLeaseSpec, 'requests'>> {
  readonly requests: Readonly<Record<string, Patch<MultiClusterRequest> | null>>
}

/** The changes of a controller. */
export interface StatusPatch extends Patch<Omit<MultiClusterLeaseStatus, 'answers'>> {
  readonly answers?: Readonly<Record<string, Patch<MultiClusterAnswer> | null>>
}

/** An event of a watch: first, and whenever the watch restarts, the full state, then each change. */
export type ResourceChange =
  | { readonly type: 'all'; readonly resources: readonly MultiClusterLease[] }
  | { readonly type: 'put' | 'deleted'; readonly resource: MultiClusterLease }

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
   * compare the uid here. So only answers may be written without `over`: ids bind them to their requests.
   */
  patchStatus(
    key: ResourceKey & { readonly uid: string },
    patch: StatusPatch,
    over: string | undefined,
    call: CallOptions,
  ): Promise<MultiClusterLease | undefined>
  /**
   * Ends or rejects when it cannot continue, and starts with the full state when it is reopened; see `keepWatching`. A
   * change may be shown twice.
   */
  watch(of: ResourceScope, call: CallOptions): AsyncIterable<ResourceChange>
}
