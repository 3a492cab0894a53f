import type { ResourceKey } from 'tenure/stores/multicluster'

/** A call on the global store. */
export interface GlobalCallReport extends ResourceKey {
  /** `look`: to see who leads, for nobody's request. */
  readonly verb: 'read' | 'acquire' | 'renew' | 'release' | 'look'
  readonly result: 'granted' | 'refused' | 'found' | 'failed'
  readonly durationMs: number
  readonly error?: unknown
}

/** Who leads has changed, as a status that was written here shows it. */
export interface LeadershipReport extends ResourceKey {
  readonly uid: string
  /** `elected`, `lost` and `released` are about a candidate of this cluster; `moved` about those of others. */
  readonly change: 'elected' | 'lost' | 'released' | 'moved'
  /** The candidate of this cluster; for `moved`, who leads now, empty if nobody does. */
  readonly identity: string
  readonly term: number
}

/** What a relay reports. Nothing waits for it, and what it throws is contained. */
export interface RelayObserver {
  readonly onCall?: ((report: GlobalCallReport) => void) | undefined
  /** A status was written, with this many answers. */
  readonly onWritten?:
    | ((report: ResourceKey & { readonly answers: number; readonly durationMs: number }) => void)
    | undefined
  /** A status had changed meanwhile, so that it is judged again. */
  readonly onConflict?: ((resource: ResourceKey) => void) | undefined
  readonly onLeadership?: ((report: LeadershipReport) => void) | undefined
  /** The global store answered after it had failed, or fails. */
  readonly onBackend?: ((report: { readonly healthy: boolean; readonly error?: unknown }) => void) | undefined
  /** Watching or writing resources failed. It is tried again. */
  readonly onError?: ((error: unknown, during: string) => void) | undefined
}
