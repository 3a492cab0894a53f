/**
 * The MultiClusterLease: the resource that the candidates of a cluster and its controllers share. Candidates write
 * `spec`, controllers write `status`. These types describe it as data. `deploy/multicluster/crd.yaml` defines the same
 * for the API server.
 *
 * Objects with arbitrary keys (`metadata`) are stored as text, because a merge patch would mix old and new keys, and
 * because a schema can limit the length of a string.
 */

/** The API type of the resource. */
export const resourceType = {
  group: 'tenure.dev',
  version: 'v1alpha1',
  plural: 'multiclusterleases',
  kind: 'MultiClusterLease',
} as const

/** A resource as last observed. */
export interface MultiClusterLease {
  readonly namespace: string
  readonly name: string
  /** Changes when the resource is deleted and created again. */
  readonly uid: string
  /** Increases with each change of `spec`. */
  readonly generation: number
  /** Changes with every write, including writes of `status`. */
  readonly resourceVersion: string
  /** The name of the election, if it is not a valid resource name. */
  readonly election: string | undefined
  readonly spec: MultiClusterLeaseSpec
  readonly status: MultiClusterLeaseStatus
}

/** The requests from this cluster's candidates. */
export interface MultiClusterLeaseSpec {
  /** The newest heartbeat: the candidate, its lease duration, and the time on its own wall clock. */
  readonly holderIdentity?: string | undefined
  readonly leaseDurationSeconds?: number | undefined
  readonly renewTime?: string | undefined
  /** The requests by candidate. Each opened store has a random key. */
  readonly requests: Readonly<Record<string, MultiClusterRequest>>
}

/** A method of the port. */
export type RequestVerb = 'read' | 'acquire' | 'renew' | 'release'

/** One call of the port. */
export interface MultiClusterRequest {
  /** Identifies the call. Never reused. */
  readonly id: string
  readonly verb: RequestVerb
  /**
   * The `renewTime` that was written with this request. A heartbeat without a matching request comes from a spec-only
   * candidate.
   */
  readonly renewTime: string
  /** How long the candidate waits for the answer. */
  readonly timeoutMs: number
  readonly claim: RequestClaim
}

/** The fields of the port's claims. The verb determines which of them are set. `holder` is the bare identity. */
export interface RequestClaim {
  readonly holder: string
  readonly attempt?: string | undefined
  /** Requested lease duration. A read includes it if the candidate knows it, to limit how long an answer may take. */
  readonly leaseDurationMs?: number | undefined
  readonly afterTerm?: number | undefined
  readonly expiredVersion?: string | undefined
  /** The metadata as JSON text. */
  readonly metadata?: string | undefined
  readonly term?: number | undefined
  readonly version?: string | undefined
  readonly checkpoint?: string | undefined
  readonly writeId?: string | undefined
  /** For release, who should lead next: an identity of this cluster, or `cluster/identity`. */
  readonly successor?: string | undefined
}

/**
 * The global record. `holder` is the bare identity if a candidate of this cluster holds the lease, otherwise
 * `cluster/identity`.
 */
export interface RelayedRecord {
  readonly holder: string
  readonly cluster: string
  readonly attempt: string
  readonly term: number
  readonly leaseDurationMs: number
  readonly acquiredAt: number
  readonly renewedAt: number
  readonly released: boolean
  /** The metadata as JSON text. */
  readonly metadata: string
  readonly checkpoint: string
  /** The version from the global store. */
  readonly version: string
  readonly writeId?: string | undefined
  /** Who should lead next, in the form of `holder`. Undefined if the record was not released to anybody. */
  readonly successor?: string | undefined
}

/** The outcome of one request. */
export interface MultiClusterAnswer {
  /** The id of the request. */
  readonly id: string
  /** Whether the request succeeded. Always true for a read. */
  readonly ok: boolean
  readonly record?: RelayedRecord | undefined
  /** Set if the request succeeded. */
  readonly validForMs?: number | undefined
  /** Set if the request was refused. */
  readonly highestTerm?: number | undefined
  readonly retryAfterMs?: number | undefined
  /** Set instead of the fields above if the request can never succeed: an error code of the library and the reason. */
  readonly error?: { readonly code: string; readonly message: string } | undefined
}

/** A Kubernetes condition. */
export interface Condition {
  readonly type: ConditionType
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason: string
  readonly message: string
  /** When `status` last changed. */
  readonly lastTransitionTime: string
  readonly observedGeneration: number
}

/** The types of conditions. */
export type ConditionType = 'Ready' | 'BackendHealthy' | 'CandidateAlive' | 'Leading'

/** The state that the controllers of this cluster report. */
export interface MultiClusterLeaseStatus {
  /** The bare identity if a candidate of this cluster leads, otherwise `cluster/identity`. Empty if nobody leads. */
  readonly leader?: string | undefined
  /** The same value, in the field that spec-only candidates read. */
  readonly globalHolderIdentity?: string | undefined
  readonly cluster?: string | undefined
  readonly term?: number | undefined
  readonly acquireTime?: string | undefined
  readonly renewTime?: string | undefined
  readonly leaseDurationSeconds?: number | undefined
  /** The latest generation whose requests were all sent to the global store after the generation was observed. */
  readonly observedGeneration?: number | undefined
  readonly conditions?: readonly Condition[] | undefined
  /** The global record as last observed. */
  readonly record?: RelayedRecord | undefined
  readonly answers: Readonly<Record<string, MultiClusterAnswer>>
  /** Keys of requests that have not been renewed for a long time. The next candidate that writes removes them. */
  readonly silent?: readonly string[] | undefined
}

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
