/**
 * Everything the service remembers, behind one interface: groups, policies, members, leases, terms, and the feed of
 * changes. The routes know nothing else.
 *
 * What an implementation promises:
 *
 * - an answer that grants a term, ends one or says that one has ended is durable before it is given;
 * - a term is never granted twice, whatever crashed in between;
 * - a lease that was granted lasts at least as long as was promised, even over a restart.
 */
import type { ServiceErrorCode } from '../errors.ts'
import type { Position } from '../storage/position.ts'
import type { Change, KeptChange } from '../watch/feed.ts'

/** What a candidate tells about itself: JSON as text. A few kilobytes of it become ten times as much as objects. */
export type MetadataText = string

/** Bounds of a group's leases, and who may take part. */
export interface Policy {
  readonly minTtlMs: number
  readonly maxTtlMs: number
}

/** A group as somebody defined it. */
export interface Definition {
  readonly policy: Policy
  /** Undefined: every node. */
  readonly allowedNodes: readonly string[] | undefined
}

/** A lease, live or over. Times are the server's. */
export interface LeaseView {
  readonly nodeId: string
  readonly attempt: string
  /** The start of the node; undefined if it named none. */
  readonly instance: string | undefined
  readonly term: number
  readonly ttlMs: number
  /** 0 once it is over. */
  readonly remainingMs: number
  readonly acquiredAtMs: number
  readonly renewedAtMs: number
  readonly metadata: MetadataText
  readonly carry: string
  readonly version: string
  /** What the claim that wrote this version was marked with; unknown after a restart. */
  readonly mark: string | undefined
  readonly ended: boolean
}

export interface CampaignClaim {
  readonly groupId: string
  readonly nodeId: string
  /** The same one again is the same candidacy: it gets its term back. */
  readonly attempt: string
  /** Whether this attempt gets nothing more once its lease is over, as long as that is the newest. */
  readonly attemptIsOnce: boolean
  /** The start of the node, if it names one. */
  readonly instance?: string | undefined
  readonly ttlMs: number
  readonly metadata: MetadataText
  /** Nothing is granted if a higher term ever was. */
  readonly afterTerm?: number | undefined
  /** Whether an administrator asks, who may be further ahead with `afterTerm`. */
  readonly byAdministrator?: boolean | undefined
  /** How long to wait in line. */
  readonly waitMs: number
  readonly mark?: string | undefined
  /** Who is charged for the group, if it is new. Undefined: nobody. */
  readonly subject?: string | undefined
}

export interface HolderClaim {
  readonly groupId: string
  readonly nodeId: string
  readonly term: number
  readonly attempt?: string | undefined
  /** The start of the node. It is compared where the grant has one too. */
  readonly instance?: string | undefined
  /** With it, exactly this version of the lease is meant. */
  readonly version?: string | undefined
  readonly mark?: string | undefined
}

export interface RenewClaim extends HolderClaim {
  /** Who is charged for telling others of it. Undefined: nobody. */
  readonly subject?: string | undefined
  readonly extendByMs: number
  readonly carry?: string | undefined
}

/** One of many renewals: the group, the term that is held there, and how long it is to last from now, in ms. */
export type ManyRenewal = readonly [groupId: string, term: number, extendByMs: number]

/** What became of one of many renewals: how long the lease lasts from now, in whole ms, or why it was not extended. */
export type ManyRenewed = number | NotRenewed

export interface NotRenewed {
  /** Of the newest lease, if there ever was one. */
  readonly currentTerm?: number | undefined
  readonly refusal?: Pick<RefusalData, 'code' | 'message'> | undefined
}

/** `lease` is the newest one, live or over; undefined if there never was one. */
export interface GroupStanding {
  readonly granted: boolean
  readonly lease: LeaseView | undefined
  readonly highestTerm: number
  /** How long nobody may lead although nobody does. */
  readonly freeInMs: number
  /** `seq` of the storage's head with which the group's record was last written; 0 if there is none. */
  readonly seq: number
  /** Of a renewal that could never be granted, why. Not thrown: there may be thousands in one request. */
  readonly refusal?: RefusalData
}

/** What a {@link ServiceError} is made from. */
export interface RefusalData {
  readonly code: ServiceErrorCode
  readonly message: string
  readonly details: Readonly<Record<string, unknown>>
}

export interface GroupView {
  readonly groupId: string
  readonly definition: Definition
  /** False for a group that exists because somebody campaigned in it. */
  readonly explicit: boolean
  readonly highestTerm: number
  readonly lease: LeaseView | undefined
  /** Nodes that gave a sign of life lately, beside the leader. */
  readonly candidates: number
  /** Those of them that are live: see {@link MemberView}. */
  readonly standbys: number
  /** Campaigns that wait in line. */
  readonly waiting: number
}

export interface PageOptions {
  readonly after: string | undefined
  readonly limit: number
  /** Nothing is said of the others, neither that they exist nor how many there are. Default: all are shown. */
  isShown?(groupId: string): boolean
}

export interface Page {
  readonly groups: GroupView[]
  readonly next: string | undefined
  /** How many were looked at and not shown. */
  readonly passedOver: number
}

export interface MemberView {
  readonly nodeId: string
  readonly role: 'leader' | 'candidate' | 'allowed'
  readonly lastHeartbeatMs: number | undefined
  /** The start of the node; undefined if it named none. */
  readonly instance: string | undefined
  readonly metadata: MetadataText
  /** Whether a campaign of it waits in line. */
  readonly waiting: boolean
  /** Whether it leads, or would take over: it waits in line, has a watch open that names it, or was heard from just now. */
  readonly live: boolean
}

/** A node with a watch that names it, and a group that it watches. */
export type Present = readonly [groupId: string, nodeId: string]

/** An answer at once where nothing must be waited for: renewals are many. */
export type MaybePromise<T> = T | Promise<T>

/** Changes that happened while nobody told of them. */
export interface Break {
  /** Where they end. */
  readonly position: Position
  /** The groups concerned; undefined: perhaps all of them. */
  readonly changed: ReadonlySet<string> | undefined
}

/** Somebody who is notified of changes. */
export interface Follower {
  onChange(change: KeptChange): void
  /** Where groups are followed from afar. What comes next is after it. */
  onBreak?(gap: Break): void
  /** There are many renewals: they are reported only while somebody wants them. */
  wantsRenewals?(): boolean
  onRenewal?(change: Change): void
}

/** For whom a call is made. */
export interface Caller {
  /** Who is charged for it. */
  readonly subject: string
  /** Calls of one lane take turns with those of others. Default: the subject. */
  readonly lane?: string | undefined
}

export interface Groups {
  /** Constant for the life of the data. */
  readonly clusterId: string
  /** The same groups, for a caller to whom the active replica charges what it does for these calls. */
  as(caller: Caller): Groups
  campaign(claim: CampaignClaim, signal: AbortSignal): Promise<GroupStanding>
  renew(claim: RenewClaim): MaybePromise<GroupStanding>
  /** The same for many leases of a node, of each group always the same. What became of each is at its place. */
  renewMany(nodeId: string, renewals: readonly ManyRenewal[], subject?: string): MaybePromise<readonly ManyRenewed[]>
  resign(claim: HolderClaim): Promise<GroupStanding>
  /** Ends the term of a holder that may still work: nobody else leads before its lease would have run out. */
  depose(claim: HolderClaim): Promise<GroupStanding>
  /** The newest lease; what it says of an end is durable. */
  leader(groupId: string): MaybePromise<GroupStanding>
  /**
   * The same for many, in their order. The last ones may be left out, but not all. Followers were told before of every
   * change that these show.
   */
  leaders(groupIds: readonly string[]): MaybePromise<readonly GroupStanding[]>

  define(
    groupId: string,
    definition: Definition,
    options: { replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'>
  group(groupId: string): MaybePromise<GroupView>
  /**
   * By id. `next` is what to go on after; there may be nothing more to show then, and a page may be short before. It is
   * bounded in bytes too.
   */
  groups(options: PageOptions): Promise<Page>
  /** How many there are, with those that the service keeps for itself. */
  count(): MaybePromise<number>
  remove(groupId: string, options: { force: boolean }): Promise<void>

  heartbeat(groupId: string, nodeId: string, metadata: MetadataText, instance?: string): MaybePromise<void>
  /** These have a watch open now. Groups that do not exist, and nodes that are not allowed in theirs, are left out. */
  present(open: readonly Present[]): MaybePromise<void>
  members(groupId: string): MaybePromise<MemberView[]>

  /** Of this term, as far as it is the newest of its group: what changes that are kept do not hold. */
  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'carry'> | undefined

  /** Tells of every change from now on, in order. Returns what ends it. */
  follow(follower: Follower): () => void
  /** Whether there is such a position. If so, it resolves once followers were told of all changes up to it. */
  reaches(position: Position): MaybePromise<boolean>
  /** Resolves while the store can make something durable, rejects otherwise. */
  check(): Promise<void>
  close(): Promise<void>
}
