/**
 * Everything that the service stores, behind one interface: groups, policies, members, leases, terms, and the feed of
 * changes. The routes use nothing else.
 *
 * An implementation promises:
 *
 * - an answer that grants a term, ends one, or says that one has ended is durable before it is given;
 * - a term is never granted twice, whatever crashed in between;
 * - a granted lease lasts at least as long as promised, even across a restart.
 */
import type { MetadataText } from '../common/checks.ts'
import type { ServiceErrorCode } from '../common/errors.ts'
import type { Position } from '../storage/position.ts'

/** The limits for the lease durations of a group. */
export interface Policy {
  readonly minTtlMs: number
  readonly maxTtlMs: number
}

/** The definition of a group. */
export interface Definition {
  readonly policy: Policy
  /** Undefined allows every node. */
  readonly allowedNodes: readonly string[] | undefined
}

/** A lease, live or ended. Times are the server's. */
export interface LeaseView {
  readonly nodeId: string
  readonly attempt: string
  /** The id of the node's start. Undefined if the node did not name one. */
  readonly instance: string | undefined
  readonly term: number
  readonly ttlMs: number
  /** 0 once the lease has ended. */
  readonly remainingMs: number
  readonly acquiredAtMs: number
  readonly renewedAtMs: number
  readonly metadata: MetadataText
  readonly checkpoint: string
  readonly version: string
  /** The write id of the claim that wrote this version. Undefined after a restart. */
  readonly writeId: string | undefined
  /** The node that should lead next, if the lease was ended and that node was named. */
  readonly successor: string | undefined
  readonly ended: boolean
}

export interface CampaignClaim {
  readonly groupId: string
  readonly nodeId: string
  /** Identifies the campaign. A campaign repeated with the same attempt id gets the same term again. */
  readonly attempt: string
  /**
   * If true, this attempt gets no further term after its lease has ended, as long as that lease is the group's newest.
   */
  readonly attemptIsOnce: boolean
  /** The id of the node's start, if it names one. */
  readonly instance?: string | undefined
  readonly ttlMs: number
  readonly metadata: MetadataText
  /** The highest term that the caller knows. Nothing is granted if a higher term was ever granted. */
  readonly afterTerm?: number | undefined
  /** Whether the caller is an administrator, for whom `afterTerm` may be further ahead. */
  readonly byAdministrator?: boolean | undefined
  /** How long to wait in the campaign queue. */
  readonly waitMs: number
  readonly writeId?: string | undefined
  /** The subject that is charged for the group if the group is new. Undefined if no subject is charged. */
  readonly subject?: string | undefined
}

export interface HolderClaim {
  readonly groupId: string
  readonly nodeId: string
  readonly term: number
  readonly attempt?: string | undefined
  /** The id of the node's start. It is compared only if the grant has one as well. */
  readonly instance?: string | undefined
  /** If set, the claim applies only to exactly this version of the lease. */
  readonly version?: string | undefined
  readonly writeId?: string | undefined
  /** For a resignation: the node that should lead next. */
  readonly successor?: string | undefined
}

export interface RenewClaim extends HolderClaim {
  /** The subject that is charged for delivering the renewal to watchers. Undefined if no subject is charged. */
  readonly subject?: string | undefined
  readonly extendByMs: number
  readonly checkpoint?: string | undefined
}

/** One of many renewals: the group, the term held in it, and how long the lease should last from now, in ms. */
export type BatchRenewal = readonly [groupId: string, term: number, extendByMs: number]

/** The outcome of one of many renewals: how long the lease lasts from now, in whole ms, or why it was not extended. */
export type BatchRenewalResult = number | RenewalRefusal

export interface RenewalRefusal {
  /** The term of the newest lease. Undefined if there never was a lease. */
  readonly currentTerm?: number | undefined
  readonly refusal?: Pick<RefusalData, 'code' | 'message'> | undefined
}

/** `lease` is the newest one, live or ended, or undefined if there never was one. */
export interface GroupState {
  readonly granted: boolean
  readonly lease: LeaseView | undefined
  readonly highestTerm: number
  /**
   * How long nothing may be granted even though the group has no leader. For a campaign that was lost: how long its node
   * cannot win, which may be because the group is left to a named successor.
   */
  readonly freeInMs: number
  /** The `seq` of the storage's head with which the group's record was last written, 0 if there is no record. */
  readonly seq: number
  /**
   * Why a renewal could never be granted. It is returned instead of thrown, because one request may contain thousands
   * of renewals.
   */
  readonly refusal?: RefusalData
}

/** The data of a {@link ServiceError}. */
export interface RefusalData {
  readonly code: ServiceErrorCode
  readonly message: string
  readonly details: Readonly<Record<string, unknown>>
}

export interface GroupView {
  readonly groupId: string
  readonly definition: Definition
  /** False for a group that exists because a node campaigned in it. */
  readonly explicit: boolean
  readonly highestTerm: number
  readonly lease: LeaseView | undefined
  /** Nodes other than the leader that recently campaigned or sent a heartbeat. */
  readonly candidates: number
  /** Candidates that count as live. See {@link MemberView}. */
  readonly standbys: number
  /** Campaigns in the queue. */
  readonly waiting: number
}

export interface PageOptions {
  readonly after: string | undefined
  readonly limit: number
  /**
   * Groups for which this returns false are not revealed: neither their existence nor their number. Default: all groups
   * are shown.
   */
  isShown?(groupId: string): boolean
}

export interface Page {
  readonly groups: GroupView[]
  readonly next: string | undefined
  /** How many groups were examined but not shown. */
  readonly passedOver: number
}

export interface MemberView {
  readonly nodeId: string
  readonly role: 'leader' | 'candidate' | 'allowed'
  readonly lastHeartbeatMs: number | undefined
  /** The id of the node's start. Undefined if the node did not name one. */
  readonly instance: string | undefined
  readonly metadata: MetadataText
  /** Whether a campaign of the node is in the queue. */
  readonly waiting: boolean
  /**
   * Whether the node leads or would take over. A node would take over if it has a campaign in the queue, has an open
   * watch that names it, or sent something in time.
   */
  readonly live: boolean
  /** The number of the seat that the node holds. Undefined if it holds none. */
  readonly seat?: number
  /** The number of the rollout that its seat names, if any. */
  readonly generation?: number
  /** Whether the node could lead, as its seat reports. Undefined without a seat. */
  readonly eligible?: boolean
}

/** A node with a watch that names it, and a group that it watches. */
export type OpenWatch = readonly [groupId: string, nodeId: string]

/**
 * A result that is returned without a promise if there is nothing to wait for. Promises would be costly for the many
 * renewals.
 */
export type MaybePromise<T> = T | Promise<T>

/** A change of a group's leadership. */
export interface GroupChange {
  readonly type: 'LEADER_CHANGED' | 'LEADER_LOST' | 'RENEWED'
  readonly groupId: string
  /** The lease at the time of the change. Changes in the feed do not include metadata and checkpoint. */
  readonly lease: LeaseView
  /** Set for `LEADER_LOST`. */
  readonly reason?: 'expired' | 'resigned' | 'deleted'
  /** In Unix milliseconds, for display only. */
  readonly atMs: number
  /** Set for a renewal: the subject that is charged for its deliveries. */
  readonly subject?: string | undefined
}

/** A change that is kept in the feed. Renewals are not kept, so they cannot be resumed. */
export interface KeptChange extends GroupChange {
  readonly position: Position
}

/** Changes that were not reported as they happened. */
export interface ChangeGap {
  /** The position of the last of these changes. */
  readonly position: Position
  /** The affected groups. Undefined if any group may be affected. */
  readonly changed: ReadonlySet<string> | undefined
}

/** A listener for changes. */
export interface ChangeListener {
  onChange(change: KeptChange): void
  /** Called when the groups move to another replica. The next change comes after the gap. */
  onGap?(gap: ChangeGap): void
  /** Renewals are frequent, so they are reported only while a follower wants them. */
  wantsRenewals?(): boolean
  onRenewal?(change: GroupChange): void
}

/** The caller on whose behalf a call is made. */
export interface Caller {
  /** The subject that is charged for the call. */
  readonly subject: string
  /** Calls of one lane take turns with calls of other lanes. Default: the subject. */
  readonly lane?: string | undefined
}

export interface Groups {
  /** Constant for the life of the data. */
  readonly clusterId: string
  /** Returns these groups on behalf of a caller. The active replica charges its work for these calls to that caller. */
  forCaller(caller: Caller): Groups
  campaign(claim: CampaignClaim, signal: AbortSignal): Promise<GroupState>
  renew(claim: RenewClaim): MaybePromise<GroupState>
  /**
   * Renews many leases of a node. A group that occurs more than once must have the same term and duration. Results are
   * in the order of the renewals.
   */
  renewMany(
    nodeId: string,
    renewals: readonly BatchRenewal[],
    subject?: string,
  ): MaybePromise<readonly BatchRenewalResult[]>
  resign(claim: HolderClaim): Promise<GroupState>
  /** Ends the term of a holder that may still be working. Nobody else leads before its lease would have expired. */
  forceResign(claim: HolderClaim): Promise<GroupState>
  /** Returns the newest lease. If it shows an end, that end is durable. */
  leader(groupId: string): MaybePromise<GroupState>
  /**
   * Returns the same for many groups, in the given order. It may leave out groups at the end, but not all of them.
   * Followers have already received every change that the result shows.
   */
  leaders(groupIds: readonly string[]): MaybePromise<readonly GroupState[]>

  define(
    groupId: string,
    definition: Definition,
    options: { replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'>
  group(groupId: string): MaybePromise<GroupView>
  /**
   * Returns a page of groups, by id. `next` is where to continue. Nothing may be left to show after it, and a page
   * other than the last may be short. The size of a page in bytes is also limited.
   */
  groups(options: PageOptions): Promise<Page>
  /** Returns the number of groups, including the service's own. */
  count(): MaybePromise<number>
  remove(groupId: string, options: { force: boolean }): Promise<void>

  heartbeat(groupId: string, nodeId: string, metadata: MetadataText, instance?: string): MaybePromise<void>
  /**
   * Records that these watches are open now. Skips groups that do not exist, and nodes that are not allowed in their
   * group.
   */
  reportWatches(open: readonly OpenWatch[]): MaybePromise<void>
  members(groupId: string): MaybePromise<MemberView[]>

  /**
   * Returns the metadata and checkpoint of this term, if it is the newest of its group. The feed does not contain them.
   */
  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'checkpoint'> | undefined

  /** Reports every change from now on, in order. Returns a function that stops the reports. */
  listen(follower: ChangeListener): () => void
  /**
   * Resolves to whether this position exists. If it does, resolves once followers have received all changes up to it.
   */
  reaches(position: Position): MaybePromise<boolean>
  /** Resolves if the store can write durably, and rejects otherwise. */
  check(): Promise<void>
  close(): Promise<void>
}
