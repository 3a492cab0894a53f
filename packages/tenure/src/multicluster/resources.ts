import type { CallOptions } from '../lease-store.ts'
import type {
  MultiClusterAnswer,
  MultiClusterLease,
  MultiClusterLeaseSpec,
  MultiClusterLeaseStatus,
  MultiClusterRequest,
} from './resource.ts'

/** Names one resource. */
export interface ResourceKey {
  readonly namespace: string
  readonly name: string
}

/** One resource, those of a namespace, or all. */
export type ResourceScope = ResourceKey | { readonly namespace?: string | undefined; readonly name?: undefined }

/** A merge patch: what is left out stays, what is null goes, at every depth. */
export type Patch<T> = { readonly [Field in keyof T]?: PatchValue<T[Field]> | null }
type PatchValue<Value> = Value extends readonly unknown[] ? Value : Value extends object ? Patch<Value> : Value

/** What a candidate changes. */
export interface SpecPatch extends Patch<Omit<MultiClusterLeaseSpec, 'requests'>> {
  readonly requests: Readonly<Record<string, Patch<MultiClusterRequest> | null>>
}

/** What a controller changes. */
export interface StatusPatch extends Patch<Omit<MultiClusterLeaseStatus, 'answers'>> {
  readonly answers?: Readonly<Record<string, Patch<MultiClusterAnswer> | null>>
}

/** What a watch shows: everything as it is, at first and whenever it must begin again; then each change. */
export type ResourceChange =
  | { readonly type: 'all'; readonly resources: readonly MultiClusterLease[] }
  | { readonly type: 'put' | 'deleted'; readonly resource: MultiClusterLease }

/**
 * The resources of a cluster, as its API server keeps them: what a lock and a controller ask of it. A call that rejects
 * may have been carried out, or may be later.
 */
export interface Resources {
  /** From the API server, never from a cache. */
  get(key: ResourceKey, call: CallOptions): Promise<MultiClusterLease | undefined>
  /** Undefined if there is one already. */
  create(
    key: ResourceKey,
    spec: MultiClusterLeaseSpec,
    election: string | undefined,
    call: CallOptions,
  ): Promise<MultiClusterLease | undefined>
  /** Undefined if there is none. */
  patchSpec(key: ResourceKey, patch: SpecPatch, call: CallOptions): Promise<MultiClusterLease | undefined>
  /**
   * Undefined if there is none, if it is no longer at the version `over`, or if it has another uid. Without `over` it is
   * patched as it is, even if it was deleted and created again since: an API server compares no uid here. So nothing may
   * be written without it but answers, which ids bind to their requests.
   */
  patchStatus(
    key: ResourceKey & { readonly uid: string },
    patch: StatusPatch,
    over: string | undefined,
    call: CallOptions,
  ): Promise<MultiClusterLease | undefined>
  /**
   * It ends or rejects where it cannot go on by itself, and begins with everything when it is opened again; see
   * `keepWatching`. A change may be shown twice.
   */
  watch(of: ResourceScope, call: CallOptions): AsyncIterable<ResourceChange>
}
