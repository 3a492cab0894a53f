/**
 * Decodes the assignment of a group of shards, which its coordinator keeps in the checkpoint of the group's record, and
 * says who owns which shard. The text is untrusted: another program may use the same election. The library and the page
 * read it here, so this module must run in a browser.
 */
import { decodeBytes, type ByteReader } from './byte-reader.ts'

/** How many shards a group may have at most. */
export const shardsLimit = 512
/** How many seats a group may have at most. Every reader reads all of them, so the number must be small. */
export const membersLimit = 100
/** The first number of an encoded assignment. */
export const assignmentFormat = 1

interface DecodedSettings {
  readonly shards: number
  readonly names?: readonly string[] | undefined
  readonly hash: string
  readonly leaseDurationMs: number
}

/** A process under one attempt on one seat. */
interface SeatAttempt {
  readonly seat: number
  readonly attempt: string
}

type DecodedShard =
  | { readonly state: 'free' | 'unknown' }
  | { readonly state: 'owned'; readonly owner: SeatAttempt; readonly token: number }
  | { readonly state: 'revoked'; readonly owner: SeatAttempt; readonly since: number; readonly lineage: string }

/** An assignment of shards to members, decoded from the coordinator's checkpoint. */
export interface DecodedAssignment {
  readonly settings: DecodedSettings
  readonly epoch: number
  readonly lineage: string
  readonly members: readonly SeatAttempt[]
  readonly shards: readonly DecodedShard[]
}

/** Undefined if the bytes are not an assignment. */
export function decodeAssignmentBytes(bytes: Uint8Array): DecodedAssignment | undefined {
  return decodeBytes(bytes, assignmentFormat, (reader) => {
    const settings = readSettings(reader)
    const epoch = reader.number()
    const lineage = reader.id()
    const members = reader.list(membersLimit, () => ({ seat: reader.number(membersLimit - 1), attempt: reader.id() }))
    const lineages = reader.list(shardsLimit, () => reader.id())
    let previous = epoch
    const epochs = reader.list(shardsLimit, () => (previous -= reader.number(previous)))
    const shards = Array.from({ length: settings.shards }, (): DecodedShard => {
      const kind = reader.number()
      if (kind < 2) return { state: kind === 0 ? 'free' : 'unknown' }
      const owner = at(members, (kind >> 1) - 1)
      const when = at(epochs, reader.number())
      if ((kind & 1) === 0) return { state: 'owned', owner, token: when }
      return { state: 'revoked', owner, since: when, lineage: at(lineages, reader.number()) }
    })
    return { settings, epoch, lineage, members, shards }
  })
}

function readSettings(reader: ByteReader): DecodedSettings {
  const shards = reader.number(shardsLimit)
  const hasNames = reader.number(1)
  const names = hasNames === 1 ? Array.from({ length: shards }, () => reader.text()) : undefined
  return { shards, ...(names && { names }), hash: reader.text(), leaseDurationMs: reader.number() }
}

function at<T>(list: readonly T[], index: number): T {
  const element = list[index]
  if (element === undefined) throw new RangeError('the text refers to an entry that does not exist')
  return element
}

/** A member of a group, as far as it can be an owner. */
interface PossibleOwner extends SeatAttempt {
  readonly identity: string
}

/** An assignment with the identities of its members. */
export interface NamedAssignment<M> {
  readonly epoch: number
  readonly leaseDurationMs: number
  readonly members: readonly (M & { readonly owned: number; readonly revoked: number })[]
  readonly shards: readonly {
    readonly shard: number
    readonly name: string | undefined
    readonly state: DecodedShard['state']
    /** Undefined if the shard has no owner, or if that member is not among the given ones. */
    readonly owner: string | undefined
    /** The token of its owner. Undefined unless the shard is owned. */
    readonly token: number | undefined
  }[]
}

/** Names the owner of each shard, and counts the shards of each member. */
export function nameOwners<M extends PossibleOwner>(
  { settings, epoch, shards }: DecodedAssignment,
  members: readonly M[],
): NamedAssignment<M> {
  // The same process under another attempt is another member.
  const keyOf = ({ seat, attempt }: SeatAttempt) => `${seat} ${attempt}`
  const known = new Map(members.map((member) => [keyOf(member), { ...member, owned: 0, revoked: 0 }]))
  const named = shards.map((shard, number) => {
    const member = 'owner' in shard ? known.get(keyOf(shard.owner)) : undefined
    if (member && shard.state === 'owned') member.owned += 1
    if (member && shard.state === 'revoked') member.revoked += 1
    return {
      shard: number,
      name: settings.names?.[number],
      state: shard.state,
      owner: member?.identity,
      token: shard.state === 'owned' ? shard.token : undefined,
    }
  })
  return { epoch, leaseDurationMs: settings.leaseDurationMs, members: [...known.values()], shards: named }
}
