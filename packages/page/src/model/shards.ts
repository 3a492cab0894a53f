/** The shards of a group, as the page shows them. */
import { decodeAssignmentBytes, nameOwners, type DecodedAssignment } from '@tenure/internal/shard-assignment'
import type { MemberAnswer } from './answers.ts'
import type { ShownLease } from './elections.ts'
import { colorOf } from './palette.ts'
import { visible } from './text.ts'

/** `orphaned`: the assignment names an owner, but that member is not present. */
export type ShardKind = 'owned' | 'revoked' | 'free' | 'unknown' | 'orphaned'

export interface ShownShard {
  readonly number: number
  /** Its name, or its number. */
  readonly label: string
  readonly kind: ShardKind
  /** The node that owns it, or that must stop its work first. Undefined if there is none. */
  readonly owner: string | undefined
  readonly token: number | undefined
  /** The mark of its owner. Empty if there is none. */
  readonly mark: string
}

/** A member with its load. */
export interface ShardOwner {
  readonly node: string
  /** How the style sheet marks its shards: by its color, and by the edge that tells it from others of that color. */
  readonly mark: string
  readonly owned: number
  /** How many shards it must give up, once its work on them has settled. */
  readonly revoked: number
}

export interface ShownShards {
  readonly isNamed: boolean
  readonly shards: readonly ShownShard[]
  /** The highest load first. */
  readonly owners: readonly ShardOwner[]
}

/** Undefined if a checkpoint was not written by a coordinator of shards. */
export function assignmentIn(checkpoint: string): DecodedAssignment | undefined {
  let text: string
  try {
    text = atob(checkpoint)
  } catch {
    return undefined
  }
  return decodeAssignmentBytes(Uint8Array.from(text, (character) => character.charCodeAt(0)))
}

/**
 * Returns the shards of a group. `members` is undefined while they are not loaded yet. Then nobody knows whether an
 * owner is present, so no shard counts as orphaned.
 */
export function shardsOf(assignment: DecodedAssignment, members: readonly MemberAnswer[] | undefined): ShownShards {
  const seated = (members ?? []).flatMap(({ node_id: identity, seat, instance_start_uuid: attempt }) =>
    seat === undefined || attempt === undefined ? [] : [{ identity, seat, attempt }],
  )
  const named = nameOwners(assignment, seated)
  const marks = marksOf(named.members.map(({ identity }) => identity))
  const markOf = (node: string | undefined) => marks.get(node ?? '') ?? ''
  const shards = named.shards.map(({ shard: number, name, state, owner, token }): ShownShard => {
    const isOrphaned = state === 'owned' && owner === undefined && members !== undefined
    const kind = isOrphaned ? 'orphaned' : state
    return { number, label: visible(name ?? String(number)), kind, owner, token, mark: markOf(owner) }
  })
  const owners = named.members
    .map(({ identity: node, owned, revoked }) => ({ node, mark: markOf(node), owned, revoked }))
    .toSorted((one, other) => other.owned - one.owned || (one.node < other.node ? -1 : 1))
  return { isNamed: assignment.settings.names !== undefined, shards, owners }
}

/** The number of edges in the style sheet. */
const edgeCount = 4

/** Nodes of the same color get different edges, in the order of their seats. */
function marksOf(nodes: readonly string[]): ReadonlyMap<string, string> {
  const used = new Map<number, number>()
  return new Map(
    nodes.map((node) => {
      const color = colorOf(node)
      const before = used.get(color) ?? 0
      used.set(color, before + 1)
      return [node, `c${color} e${before % edgeCount}`]
    }),
  )
}

/** What each kind means, in the words of a legend. */
export const kindTexts: Readonly<Record<ShardKind, string>> = {
  owned: 'owned',
  revoked: 'in motion',
  free: 'free',
  unknown: 'unknown',
  orphaned: 'owner gone',
}

/** How many shards there are of each kind that occurs. */
export function countKinds({ shards }: ShownShards): readonly { readonly kind: ShardKind; readonly count: number }[] {
  const kinds = Object.keys(kindTexts) as ShardKind[]
  return kinds
    .map((kind) => ({ kind, count: shards.filter((shard) => shard.kind === kind).length }))
    .filter(({ count }) => count > 0)
}

/** Says in one sentence who owns a shard, or what it waits for. */
export function shardText({ label, kind, owner, token }: ShownShard, hasCoordinator: boolean): string {
  const shard = `Shard ${label}`
  if (kind === 'owned') {
    return owner === undefined
      ? `${shard} is owned with token ${token}.`
      : `${shard} is owned by ${visible(owner)} with token ${token}.`
  }
  const waits = {
    revoked:
      owner === undefined
        ? 'is in motion: its owner is gone, so it waits until that lease has certainly ended'
        : `is in motion: ${visible(owner)} must stop its work first`,
    free: 'is free and waits for a member',
    unknown: 'is unknown: the assignment was lost, so it waits until nobody can own it',
    orphaned: 'has no owner: that member is gone, so it waits until that lease has certainly ended',
  }[kind]
  return `${shard} ${waits}.${hasCoordinator ? '' : ' There is no coordinator.'}`
}

/**
 * Describes the shards of an election in the list. Undefined if it has none. Only the members would show whether an owner
 * is gone. Shards in motion are normal, others without an owner are `isBad`.
 */
export function shardsNote(
  lease: ShownLease | undefined,
): { readonly text: string; readonly isBad: boolean } | undefined {
  const assignment = assignmentIn(lease?.checkpoint ?? '')
  if (!assignment) return undefined
  const { shards } = assignment
  const counts = (['revoked', 'free', 'unknown'] as const)
    .map((kind) => ({ kind, count: shards.filter(({ state }) => state === kind).length }))
    .filter(({ count }) => count > 0)
  const whole = `${shards.length} ${shards.length === 1 ? 'shard' : 'shards'}`
  const text = [whole, ...counts.map(({ kind, count }) => `${count} ${kindTexts[kind]}`)].join(', ')
  return { text, isBad: counts.some(({ kind }) => kind !== 'revoked') }
}

/** The group whose seat an election is. Undefined for any other name. */
export function groupOfSeat(election: string): { readonly group: string; readonly seat: number } | undefined {
  const [, group, seat] = /^(.+)\.member\.(\d{1,2})$/.exec(election) ?? []
  return group === undefined ? undefined : { group, seat: Number(seat) }
}

/** Where the arrow keys lead from one shard to another, in a grid with so many columns. Undefined for other keys. */
export function moved(
  from: number,
  key: string,
  grid: { readonly columns: number; readonly count: number },
): number | undefined {
  const last = grid.count - 1
  const steps: Readonly<Record<string, number>> = {
    ArrowLeft: from - 1,
    ArrowRight: from + 1,
    ArrowUp: from - grid.columns,
    ArrowDown: from + grid.columns,
    Home: 0,
    End: last,
  }
  const to = steps[key]
  return to === undefined ? undefined : Math.min(last, Math.max(0, to))
}
