/**
 * The MultiClusterLease: the one thing that candidates of a cluster and its controllers share. Candidates write `spec`,
 * controllers `status`. What follows is its shape as data; `deploy/multicluster/crd.yaml` says the same to the API server.
 *
 * Objects with names of the writer's choosing (`metadata`) are in it as text, because a merge patch would mix the old
 * and the new, and because a schema can bound a text.
 */

/** Where the API server keeps them. */
export const resourceType = {
  group: 'tenure.dev',
  version: 'v1alpha1',
  plural: 'multiclusterleases',
  kind: 'MultiClusterLease',
} as const

/** A resource as it was last seen. */
export interface MultiClusterLease {
  readonly namespace: string
  readonly name: string
  /** Another one after the resource was deleted and created again. */
  readonly uid: string
  /** Rises with each change of `spec`. */
  readonly generation: number
  /** Differs after each change, of `status` too. */
  readonly resourceVersion: string
  /** The name of the election, where a resource cannot have it. */
  readonly election: string | undefined
  readonly spec: MultiClusterLeaseSpec
  readonly status: MultiClusterLeaseStatus
}

/** What the candidates of this cluster ask for. */
export interface MultiClusterLeaseSpec {
  /** Of the newest heartbeat: who, for how long, when by its own wall clock. */
  readonly holderIdentity?: string | undefined
  readonly leaseDurationSeconds?: number | undefined
  readonly renewTime?: string | undefined
  /** By candidate: a random key for each store that was opened. */
  readonly requests: Readonly<Record<string, MultiClusterRequest>>
}

/** A call of the port. */
export type RequestVerb = 'read' | 'acquire' | 'renew' | 'release'

/** One call of the port. */
export interface MultiClusterRequest {
  /** Names the call; never used again. */
  readonly id: string
  readonly verb: RequestVerb
  /** The `renewTime` that came with it. A heartbeat that no request has is of a candidate that knows only the document. */
  readonly renewTime: string
  /** For how long the candidate waits for the answer. */
  readonly timeoutMs: number
  readonly claim: RequestClaim
}

/** The fields of the port's claims; which of them there are follows from the verb. `holder` is the bare identity. */
export interface RequestClaim {
  readonly holder: string
  readonly attempt?: string | undefined
  /** Of a read too, where the candidate knows it: it bounds how long to wait for an answer. */
  readonly leaseDurationMs?: number | undefined
  readonly afterTerm?: number | undefined
  readonly expiredVersion?: string | undefined
  /** JSON. */
  readonly metadata?: string | undefined
  readonly term?: number | undefined
  readonly version?: string | undefined
  readonly carry?: string | undefined
  readonly mark?: string | undefined
}

/** The global record. `holder` is the bare identity if a candidate of this cluster holds it, else `cluster/identity`. */
export interface RelayedRecord {
  readonly holder: string
  readonly cluster: string
  readonly attempt: string
  readonly term: number
  readonly leaseDurationMs: number
  readonly acquiredAt: number
  readonly renewedAt: number
  readonly released: boolean
  /** JSON. */
  readonly metadata: string
  readonly carry: string
  /** The version that the global store gave it. */
  readonly version: string
  readonly mark?: string | undefined
}

/** What became of one request. */
export interface MultiClusterAnswer {
  /** The request's. */
  readonly id: string
  /** Whether it was carried out. Of a read: true. */
  readonly ok: boolean
  readonly record?: RelayedRecord | undefined
  /** If it was carried out. */
  readonly validForMs?: number | undefined
  /** If it was refused. */
  readonly highestTerm?: number | undefined
  readonly retryAfterMs?: number | undefined
  /** If it can never be carried out: neither of the above. A code of the library, and why. */
  readonly error?: { readonly code: string; readonly message: string } | undefined
}

/** As Kubernetes has them. */
export interface Condition {
  readonly type: ConditionType
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason: string
  readonly message: string
  /** When `status` changed last. */
  readonly lastTransitionTime: string
  readonly observedGeneration: number
}

/** What conditions there are. */
export type ConditionType = 'Ready' | 'BackendHealthy' | 'CandidateAlive' | 'Leading'

/** What the controllers of this cluster answer. */
export interface MultiClusterLeaseStatus {
  /** The bare identity if a candidate of this cluster leads, else `cluster/identity`; empty if nobody leads. */
  readonly leader?: string | undefined
  /** The same, by the name that the document gives it. */
  readonly globalHolderIdentity?: string | undefined
  readonly cluster?: string | undefined
  readonly term?: number | undefined
  readonly acquireTime?: string | undefined
  readonly renewTime?: string | undefined
  readonly leaseDurationSeconds?: number | undefined
  /** Everything that this generation asks for was asked of the global store after it was seen. */
  readonly observedGeneration?: number | undefined
  readonly conditions?: readonly Condition[] | undefined
  /** The global record as last seen. */
  readonly record?: RelayedRecord | undefined
  readonly answers: Readonly<Record<string, MultiClusterAnswer>>
  /** Keys of requests that nobody has renewed for long: the next candidate that writes removes them. */
  readonly silent?: readonly string[] | undefined
}
