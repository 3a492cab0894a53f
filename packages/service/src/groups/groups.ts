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
import type { ServiceErrorCode } from '../errors.ts'
import type { Position } from '../storage/position.ts'
import type { Change, KeptChange } from '../watch/feed.ts'

/**
 * Data that a candidate provides about itself: JSON as text. A few kilobytes take ten times as much memory as objects.
 */
export type MetadataText = string

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
  /** The id of the node's start. Undefined if it named none. */
  readonly instance: string | undefined
  readonly term: number
  readonly ttlMs: number
  /** 0 once it has ended. */
  readonly remainingMs: number
  readonly acquiredAtMs: number
  readonly renewedAtMs: number
  readonly metadata: MetadataText
  readonly carry: string
  readonly version: string
  /** The write id of the claim that wrote this version. Undefined after a restart. */
  readonly mark: string | undefined
  readonly ended: boolean
}

export interface CampaignClaim {
  readonly groupId: string
  readonly nodeId: string
  /** Identifies the campaign. A repeated attempt gets its own term again. */
  readonly attempt: string
  /** Whether this attempt gets nothing more once its lease has ended, as long as that lease is the newest. */
  readonly attemptIsOnce: boolean
  /** The id of the node's start, if it names one. */
  readonly instance?: string | undefined
  readonly ttlMs: number
  readonly metadata: MetadataText
  /** Nothing is granted if a higher term ever was. */
  readonly afterTerm?: number | undefined
  /** Whether the caller is an administrator, for whom `afterTerm` may be further ahead. */
  readonly byAdministrator?: boolean | undefined
  /** How long to wait in the campaign queue. */
  readonly waitMs: number
  readonly mark?: string | undefined
  /** The subject that is charged for the group, if it is new. Undefined if none is. */
  readonly subject?: string | undefined
}

export interface HolderClaim {
  readonly groupId: string
  readonly nodeId: string
  readonly term: number
  readonly attempt?: string | undefined
  /** The id of the node's start. It is compared if the grant has one too. */
  readonly instance?: string | undefined
  /** If set, the claim is only for exactly this version of the lease. */
  readonly version?: string | undefined
  readonly mark?: string | undefined
}

export interface RenewClaim extends HolderClaim {
  /** The subject that is charged for delivering the renewal to watchers. Undefined if none is. */
  readonly subject?: string | undefined
  readonly extendByMs: number
  readonly carry?: string | undefined
}

/** One of many renewals: the group, the term held in it, and how long the lease should last from now, in ms. */
export type ManyRenewal = readonly [groupId: string, term: number, extendByMs: number]

/** The outcome of one of many renewals: how long the lease lasts from now, in whole ms, or why it was not extended. */
export type ManyRenewed = number | NotRenewed

export interface NotRenewed {
  /** The term of the newest lease, if there ever was one. */
  readonly currentTerm?: number | undefined
  readonly refusal?: Pick<RefusalData, 'code' | 'message'> | undefined
}

/** `lease` is the newest one, live or ended, or undefined if there never was one. */
export interface GroupStanding {
  readonly granted: boolean
  readonly lease: LeaseView | undefined
  readonly highestTerm: number
  /** How long nothing may be granted although the group has no leader. */
  readonly freeInMs: number
  /** The `seq` of the storage's head with which the group's record was last written, 0 if there is no record. */
  readonly seq: number
  /** Why a renewal could never be granted. It is not thrown, because there may be thousands in one request. */
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
  /** Nodes that recently campaigned or sent a heartbeat, without the leader. */
  readonly candidates: number
  /** Candidates that are live: see {@link MemberView}. */
  readonly standbys: number
  /** Campaigns in the queue. */
  readonly waiting: number
}

export interface PageOptions {
  readonly after: string | undefined
  readonly limit: number
  /** Groups that are not shown are not revealed, neither their existence nor their number. Default: all are shown. */
  isShown?(groupId: string): boolean
}

export interface Page {
  readonly groups: GroupView[]
  readonly next: string | undefined
  /** How many groups were examined and not shown. */
  readonly passedOver: number
}

export interface MemberView {
  readonly nodeId: string
  readonly role: 'leader' | 'candidate' | 'allowed'
  readonly lastHeartbeatMs: number | undefined
  /** The id of the node's start. Undefined if it named none. */
  readonly instance: string | undefined
  readonly metadata: MetadataText
  /** Whether a campaign of the node is in the queue. */
  readonly waiting: boolean
  /**
   * Whether the node leads, or would take over: it has a campaign in the queue, an open watch that names it, or it sent
   * something in time.
   */
  readonly live: boolean
}

/** A node with a watch that names it, and a group that it watches. */
export type Present = readonly [groupId: string, nodeId: string]

/** Returned without a promise if there is nothing to wait for, because there are many renewals. */
export type MaybePromise<T> = T | Promise<T>

/** Changes that were not reported as they happened. */
export interface Break {
  /** The position where they end. */
  readonly position: Position
  /** The affected groups. Undefined if it may be all of them. */
  readonly changed: ReadonlySet<string> | undefined
}

/** A listener for changes. */
export interface Follower {
  onChange(change: KeptChange): void
  /** Called if the groups are on another replica. The next change is after the break. */
  onBreak?(gap: Break): void
  /** There are many renewals, so they are only reported while a follower wants them. */
  wantsRenewals?(): boolean
  onRenewal?(change: Change): void
}

/** The caller that a call is made for. */
export interface Caller {
  /** The subject that is charged for it. */
  readonly subject: string
  /** Calls of one lane take turns with those of others. Default: the subject. */
  readonly lane?: string | undefined
}

export interface Groups {
  /** Constant for the life of the data. */
  readonly clusterId: string
  /** Returns the same groups for a caller. The active replica charges its work for these calls to that caller. */
  as(caller: Caller): Groups
  campaign(claim: CampaignClaim, signal: AbortSignal): Promise<GroupStanding>
  renew(claim: RenewClaim): MaybePromise<GroupStanding>
  /**
   * Renews many leases of a node. A group that occurs more than once must have the same term and duration. Results are
   * in the order of the renewals.
   */
  renewMany(nodeId: string, renewals: readonly ManyRenewal[], subject?: string): MaybePromise<readonly ManyRenewed[]>
  resign(claim: HolderClaim): Promise<GroupStanding>
  /** Ends the term of a holder that may still be working. Nobody else leads before its lease would have expired. */
  depose(claim: HolderClaim): Promise<GroupStanding>
  /** Returns the newest lease. If it shows an end, that end is durable. */
  leader(groupId: string): MaybePromise<GroupStanding>
  /**
   * The same for many groups, in their order. The last ones may be left out, but not all. Followers have already
   * received every change that the result shows.
   */
  leaders(groupIds: readonly string[]): MaybePromise<readonly GroupStanding[]>

  define(
    groupId: string,
    definition: Definition,
    options: { replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'>
  group(groupId: string): MaybePromise<GroupView>
  /**
   * Returns a page of groups, by id. `next` is where to continue. There may be nothing more to show after it, and a
   * page may be short before the last one. A page is limited in bytes too.
   */
  groups(options: PageOptions): Promise<Page>
  /** Returns the number of groups, including the service's own. */
  count(): MaybePromise<number>
  remove(groupId: string, options: { force: boolean }): Promise<void>

  heartbeat(groupId: string, nodeId: string, metadata: MetadataText, instance?: string): MaybePromise<void>
  /**
   * Records that these have an open watch now. Groups that do not exist, and nodes that are not allowed in theirs, are
   * left out.
   */
  present(open: readonly Present[]): MaybePromise<void>
  members(groupId: string): MaybePromise<MemberView[]>

  /** Returns the texts of this term, if it is the newest of its group. Changes in the feed do not contain them. */
  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'carry'> | undefined

  /** Reports every change from now on, in order. Returns a function that ends it. */
  follow(follower: Follower): () => void
  /** Resolves to whether this position exists. If so, it resolves once followers have received all changes up to it. */
  reaches(position: Position): MaybePromise<boolean>
  /** Resolves if the store can write durably, and rejects otherwise. */
  check(): Promise<void>
  close(): Promise<void>
}
