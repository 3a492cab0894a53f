import type { ResourceKey } from 'tenure/internal/multicluster'

/** A call to the global store. */
export interface GlobalCallReport extends ResourceKey {
  /** `look` is a read that checks who leads. It does not belong to any request. */
  readonly verb: 'read' | 'acquire' | 'renew' | 'release' | 'look'
  readonly result: 'granted' | 'refused' | 'found' | 'failed'
  readonly durationMs: number
  readonly error?: unknown
}

/** A change of leadership, according to a status written by this relay. */
export interface LeadershipReport extends ResourceKey {
  readonly uid: string
  /**
   * `elected`, `lost`, and `released` are about a candidate of this cluster. `moved` is about candidates of other
   * clusters.
   */
  readonly change: 'elected' | 'lost' | 'released' | 'moved'
  /** The candidate of this cluster. For `moved`, the new leader, or empty if there is none. */
  readonly identity: string
  readonly term: number
}

/** Receives reports from a relay. Its methods are not awaited, and errors that they throw are dropped. */
export interface RelayObserver {
  readonly onCall?: ((report: GlobalCallReport) => void) | undefined
  /** A status was written, with this many answers. */
  readonly onWritten?:
    | ((report: ResourceKey & { readonly answers: number; readonly durationMs: number }) => void)
    | undefined
  /** The resource changed during a status write, so the status is computed again. */
  readonly onConflict?: ((resource: ResourceKey) => void) | undefined
  readonly onLeadership?: ((report: LeadershipReport) => void) | undefined
  /** The global store started or stopped failing. */
  readonly onBackend?: ((report: { readonly healthy: boolean; readonly error?: unknown }) => void) | undefined
  /** Watching or writing resources failed and will be retried. */
  readonly onError?: ((error: unknown, during: string) => void) | undefined
}
