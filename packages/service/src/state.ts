/**
 * Everything the service remembers, behind one interface: groups, policies, members, leases, terms, and the feed of
 * changes. The routes know nothing else, so the same service can stand on another store.
 *
 * What an implementation promises:
 *
 * - an answer that grants a term, ends one or tells that one has ended is durable before it is given;
 * - a term is never granted twice, whatever crashed in between;
 * - a lease that was granted lasts at least as long as was promised, also over a restart.
 */
import type { Change } from './feed.ts'

/** What a candidate tells about itself. */
export type Metadata = { readonly [key: string]: unknown }

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
  readonly term: number
  readonly ttlMs: number
  /** 0 once it is over. */
  readonly remainingMs: number
  readonly acquiredAtMs: number
  readonly renewedAtMs: number
  readonly metadata: Metadata
  readonly carry: string
  readonly version: string
  readonly ended: boolean
}

export interface CampaignClaim {
  readonly groupId: string
  readonly nodeId: string
  /** The same one again is the same candidacy: it gets its term back. */
  readonly attempt: string
  /** Whether this attempt gets nothing more once its lease is over, as long as that is the newest. */
  readonly attemptIsOnce: boolean
  readonly ttlMs: number
  readonly metadata: Metadata
  /** Nothing is granted if a higher term ever was. */
  readonly afterTerm?: number | undefined
  /** How long to wait in line. */
  readonly waitMs: number
}

export interface HeldClaim {
  readonly groupId: string
  readonly nodeId: string
  readonly term: number
  readonly attempt?: string | undefined
  /** With it, exactly this version of the lease is meant. */
  readonly version?: string | undefined
}

export interface RenewClaim extends HeldClaim {
  readonly extendByMs: number
  readonly carry?: string | undefined
}

/** `lease` is the newest one, live or over; undefined if there never was one. */
export interface Verdict {
  readonly granted: boolean
  readonly lease: LeaseView | undefined
  readonly highestTerm: number
  /** How long nobody may lead although nobody does. */
  readonly freeInMs: number
}

export interface GroupView {
  readonly groupId: string
  readonly definition: Definition
  /** False for a group that exists because somebody campaigned in it. */
  readonly explicit: boolean
  readonly highestTerm: number
  readonly lease: LeaseView | undefined
}

export interface PageOptions {
  readonly after: string | undefined
  readonly limit: number
  /** Of the others nothing is told, neither that they are there nor how many. Default: all are shown. */
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
  readonly metadata: Metadata
}

/** An answer at once where nothing must be waited for: renewals are many. */
export type MaybePromise<T> = T | Promise<T>

/** Somebody who is told of changes. */
export interface Follower {
  onChange(change: Change): void
  /** Renewals are many: they are told only while somebody wants them. */
  wantsRenewals(): boolean
}

export interface ElectionState {
  /** Constant for the life of the data. */
  readonly clusterId: string
  campaign(claim: CampaignClaim, signal: AbortSignal): Promise<Verdict>
  renew(claim: RenewClaim): MaybePromise<Verdict>
  resign(claim: HeldClaim): Promise<Verdict>
  /** The newest lease; what it says of an end is durable. */
  leader(groupId: string): MaybePromise<Verdict>

  define(
    groupId: string,
    definition: Definition,
    options: { replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'>
  group(groupId: string): MaybePromise<GroupView>
  /** By id. `next` is what to go on after; there may be nothing more to show then, and a page may be short before. */
  groups(options: PageOptions): Promise<Page>
  remove(groupId: string, options: { force: boolean }): Promise<void>

  heartbeat(groupId: string, nodeId: string, metadata: Metadata): MaybePromise<void>
  members(groupId: string): MaybePromise<MemberView[]>

  /** Tells of every change from now on, in order. Returns what ends it. */
  follow(follower: Follower): () => void
  /** Resolves while the store can make something durable, rejects otherwise. */
  check(): Promise<void>
  close(): Promise<void>
}
