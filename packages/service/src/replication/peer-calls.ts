/**
 * The calls that a follower forwards to the active replica: for each verb, the schema of its arguments and what it
 * does.
 *
 * These schemas guard the boundary between replicas. A peer has proved that it knows the cluster's secret, so it is
 * trusted to have checked the content at its own boundary to clients. But it may run another version, so the types are
 * checked here.
 */
import { Type, type Static, type TSchema, type TTuple } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Caller, GroupState, GroupView, MaybePromise } from '../groups/port.ts'
import { fitting, textBytes } from '../groups/listing.ts'
import { maxWatchesPerReport } from '../groups/members.ts'
import type { LocalGroups } from '../groups/local-groups.ts'
import type { Position } from '../storage/position.ts'

/** The state of groups, and the newest change that it includes. */
export interface GroupStates {
  readonly standings: readonly GroupState[]
  readonly position: Position
}

/** The newest change, and the newest write. */
export type NewestPositions = Pick<LocalGroups, 'position' | 'durable'>

interface PeerVerb<Args, Answer> {
  isSound(args: unknown): args is Args
  run(groups: LocalGroups, args: Args, signal: AbortSignal, caller: Caller | undefined): MaybePromise<Answer>
  /** Returns the approximate size of an answer, if it may be large. The caller is charged before the answer is made. */
  bytesOf?: ((groups: LocalGroups, args: Args) => number) | undefined
}

function verb<T extends TSchema[], Answer>(
  args: [...T],
  run: PeerVerb<Static<TTuple<T>>, Answer>['run'],
  bytesOf?: PeerVerb<Static<TTuple<T>>, Answer>['bytesOf'],
): PeerVerb<Static<TTuple<T>>, Answer> {
  const compiled = TypeCompiler.Compile(Type.Tuple(args))
  return { isSound: (given): given is Static<TTuple<T>> => compiled.Check(given), run, bytesOf }
}

const text = Type.String()
const count = Type.Integer({ minimum: 0 })
/** JSON has no undefined, so such fields are left out. */
const maybe = <T extends TSchema>(schema: T) => Type.Optional(Type.Unsafe<Static<T> | undefined>(schema))
const maybeText = maybe(text)
const holder = {
  groupId: text,
  nodeId: text,
  term: count,
  attempt: maybeText,
  instance: maybeText,
  version: maybeText,
  writeId: maybeText,
  successor: maybeText,
}
const definition = Type.Object({
  policy: Type.Object({ minTtlMs: count, maxTtlMs: count }),
  allowedNodes: Type.Optional(Type.Unsafe<readonly string[] | undefined>(Type.Array(text))),
})
/** The limit of one call, because its renewals are answered in one synchronous step. */
export const maxRenewals = 512
const ids = Type.Array(text, { maxItems: 2_000 })

const leaseBytes = ({ lease }: GroupState) => textBytes(lease)
const viewBytes = (view: GroupView | undefined) => (view ? textBytes(view.lease, view.definition) : 0)

export const peerCalls = {
  campaign: verb(
    [
      Type.Object({
        groupId: text,
        nodeId: text,
        attempt: text,
        attemptIsOnce: Type.Boolean(),
        instance: maybeText,
        ttlMs: Type.Number(),
        metadata: text,
        afterTerm: maybe(count),
        byAdministrator: maybe(Type.Boolean()),
        waitMs: Type.Number(),
        writeId: maybeText,
        subject: maybeText,
      }),
    ],
    (groups, [claim], signal) => groups.campaign(claim, signal),
  ),
  renew: verb(
    [Type.Object({ ...holder, extendByMs: Type.Number(), checkpoint: maybeText, subject: maybeText })],
    (groups, [claim]) => groups.renew(claim),
  ),
  renewMany: verb(
    [text, Type.Array(Type.Tuple([text, count, Type.Number()]), { maxItems: maxRenewals })],
    (groups, [nodeId, renewals], _signal, caller) => groups.renewMany(nodeId, renewals, caller?.subject),
  ),
  resign: verb([Type.Object(holder)], (groups, [claim]) => groups.resign(claim)),
  // Unlike a resignation, this sets a hold: the holder may still believe that it leads.
  forceResign: verb([Type.Object(holder)], (groups, [claim]) => groups.forceResign(claim)),
  leader: verb([text], (groups, [groupId]) => groups.leader(groupId)),
  leaders: verb([ids], (groups, [groupIds]): MaybePromise<GroupStates> => {
    const found = groups.leaders(groupIds)
    // Reads no more groups at once than a page holds. The caller requests the rest in another call.
    const at = (standings: readonly GroupState[]) => ({
      standings: fitting(standings, leaseBytes),
      position: groups.position,
    })
    return found instanceof Promise ? found.then(at) : at(found)
  }),
  define: verb([text, definition, Type.Boolean()], (groups, [groupId, { policy, allowedNodes }, replace]) =>
    groups.define(groupId, { policy, allowedNodes }, { replace }),
  ),
  remove: verb([text, Type.Boolean()], (groups, [groupId, force]) => groups.remove(groupId, { force })),
  group: verb([text], (groups, [groupId]) => groups.group(groupId)),
  idsAfter: verb([Type.Union([text, Type.Null()]), count], (groups, [after, most]) =>
    groups.idsAfter(after ?? undefined, Math.min(most, 2_000)),
  ),
  count: verb([], (groups) => groups.count()),
  views: verb([ids], async (groups, [groupIds]) => fitting(await groups.views(groupIds), viewBytes)),
  heartbeat: verb(
    [text, text, text, Type.Union([text, Type.Null()])],
    (groups, [groupId, nodeId, metadata, instance]) =>
      groups.heartbeat(groupId, nodeId, metadata, instance ?? undefined),
  ),
  present: verb([Type.Array(Type.Tuple([text, text]), { maxItems: maxWatchesPerReport })], (groups, [open]) =>
    groups.reportWatches(open),
  ),
  members: verb(
    [text],
    (groups, [groupId]) => groups.members(groupId),
    (groups, [groupId]) => groups.memberBytes(groupId),
  ),
  newest: verb([], ({ position, durable }): NewestPositions => ({ position, durable })),
  check: verb([], (groups) => groups.check()),
}

export type PeerCallName = keyof typeof peerCalls
export type ArgsOf<Name extends PeerCallName> =
  (typeof peerCalls)[Name] extends PeerVerb<infer Args, infer _> ? Args : never
export type AnswerOf<Name extends PeerCallName> = Awaited<ReturnType<(typeof peerCalls)[Name]['run']>>

/** Returns undefined if the verb is unknown, as in another version, or if the arguments are invalid. */
export function parseCall(name: string, args: unknown): ParsedCall | undefined {
  if (!Object.hasOwn(peerCalls, name)) return undefined
  const { isSound, run, bytesOf } = peerCalls[name as PeerCallName] as PeerVerb<unknown, unknown>
  if (!isSound(args)) return undefined
  return {
    run: (groups, signal, caller) => run(groups, args, signal, caller),
    bytesOf: (groups) => bytesOf?.(groups, args) ?? 0,
  }
}

/** A valid call. */
export interface ParsedCall {
  /** Returns the approximate size of the answer, 0 if it is small. */
  bytesOf(groups: LocalGroups): number
  run(groups: LocalGroups, signal: AbortSignal, caller: Caller | undefined): MaybePromise<unknown>
}
