/** The shapes of requests and answers. Validation, serialisation and the OpenAPI document all come from here. */
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { errorStatus } from './errors.ts'

const longestMs = 2 ** 31 - 1
const Milliseconds = (description: string, minimum = 1) => Type.Integer({ minimum, maximum: longestMs, description })
const Term = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'The fencing token.' })
const Text = (maxLength: number, description: string) => Type.String({ minLength: 1, maxLength, description })

/** Letters, digits and a few signs, so that an id means one thing in a path, a log and a metric. */
export const groupIdPattern = '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$'
export const GroupId = Type.String({ pattern: groupIdPattern, description: 'The group.' })
export const NodeId = Text(256, 'The node. Text of at most 256 bytes without control characters, in Unicode form NFC.')
const Metadata = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What the node tells about itself: at most 4,096 bytes of JSON, at most 8 levels deep.',
})

export const GroupParams = Type.Object({ group_id: GroupId })

export const Leader = Type.Object(
  {
    node_id: Type.String(),
    term: Term,
    lease_expires_at_ms: Type.Integer({ description: 'Unix time on the server’s clock, for people.' }),
    lease_remaining_ms: Type.Integer({ description: 'How long the lease lasts from the moment of the answer.' }),
    lease_ttl_ms: Type.Integer(),
    acquired_at_ms: Type.Integer(),
    renewed_at_ms: Type.Integer(),
    metadata: Metadata,
    carry: Type.String({ description: 'A small text that outlives leaders.' }),
    attempt: Type.String(),
    version: Type.String({ description: 'Changes with every write.' }),
  },
  { description: 'A leader, or the last one.' },
)

export const CampaignBody = Type.Object(
  {
    node_id: NodeId,
    lease_ttl_ms: Milliseconds('How long the lease lasts unless it is renewed.'),
    metadata: Type.Optional(Metadata),
    instance_start_uuid: Type.Optional(Text(128, 'Names this start of the node: it gets its own lease back.')),
    request_id: Type.Optional(Text(128, 'Names this request: repeated, it gets the same answer.')),
    strict: Type.Optional(Type.Boolean({ description: 'A lost campaign is answered with 409.' })),
    wait_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 60_000, description: 'How long to wait in line.' })),
    attempt: Type.Optional(Text(256, 'Names this candidacy: it is granted one term at most, ever.')),
    after_term: Type.Optional(Term),
  },
  { additionalProperties: false },
)

export const CampaignAnswer = Type.Object({
  is_leader: Type.Boolean(),
  leader: Type.Union([Leader, Type.Null()]),
  previous_leader: Type.Optional(Leader),
  highest_term: Term,
  retry_after_ms: Type.Optional(Type.Integer()),
  cluster_id: Type.String(),
})

const Held = {
  node_id: NodeId,
  term: Term,
  attempt: Type.Optional(Text(256, 'With it, only a lease of this candidacy is meant.')),
  version: Type.Optional(Text(256, 'With it, only this version of the lease is meant.')),
}
const carryLimit = 4096
const Carry = Type.Optional(Type.String({ maxLength: carryLimit, description: 'Replaces the carry.' }))

export const RenewBody = Type.Object(
  { ...Held, extend_by_ms: Milliseconds('The lease lasts at least this long from now.'), carry: Carry },
  { additionalProperties: false },
)

export const RenewAnswer = Type.Object({ ok: Type.Literal(true), leader: Leader, cluster_id: Type.String() })

export const ResignBody = Type.Object(Held, { additionalProperties: false })
export const ResignAnswer = Type.Object({
  ok: Type.Literal(true),
  leader: Type.Optional(Leader),
  cluster_id: Type.String(),
})

export const LeaderAnswer = Type.Object({
  leader: Type.Union([Leader, Type.Null()]),
  previous_leader: Type.Optional(Leader),
  highest_term: Term,
  retry_after_ms: Type.Optional(Type.Integer()),
  cluster_id: Type.String(),
})

/** The one shape of every error. */
export const Failure = Type.Object({
  ok: Type.Literal(false),
  error: Type.Union((Object.keys(errorStatus) as (keyof typeof errorStatus)[]).map((code) => Type.Literal(code))),
  message: Type.String(),
  current_leader: Type.Optional(Type.Union([Leader, Type.Null()])),
  previous_leader: Type.Optional(Leader),
  highest_term: Type.Optional(Term),
  min_ttl_ms: Type.Optional(Type.Integer()),
  max_ttl_ms: Type.Optional(Type.Integer()),
  retry_after_ms: Type.Optional(Type.Integer()),
  request_id: Type.Optional(Type.String()),
})

/** An answer with one of these statuses is a failure. */
export function failures(...statuses: number[]): Record<number, TSchema> {
  return Object.fromEntries(statuses.map((status) => [status, Failure]))
}

export type RenewRequest = Static<typeof RenewBody>
export type ResignRequest = Static<typeof ResignBody>

export const Ok = Type.Object({ ok: Type.Literal(true) })

export const RenewManyBody = Type.Object(
  {
    node_id: NodeId,
    renewals: Type.Array(
      Type.Object(
        {
          group_id: GroupId,
          term: Term,
          extend_by_ms: Milliseconds('The lease lasts at least this long from now.'),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: 20_000 },
    ),
  },
  { additionalProperties: false },
)

const RenewItem = Type.Object({
  group_id: Type.String(),
  ok: Type.Boolean(),
  term: Type.Optional(Term),
  lease_expires_at_ms: Type.Optional(Type.Integer()),
  lease_remaining_ms: Type.Optional(Type.Integer()),
  error: Type.Optional(Type.String()),
  message: Type.Optional(Type.String()),
  current_term: Type.Optional(Term),
})
export const RenewManyAnswer = Type.Object({ results: Type.Array(RenewItem), cluster_id: Type.String() })
export type RenewResult = Static<typeof RenewItem>

const PolicyBody = Type.Object(
  {
    min_ttl_ms: Type.Optional(Milliseconds('The shortest lease.')),
    max_ttl_ms: Type.Optional(Milliseconds('The longest lease.')),
  },
  { additionalProperties: false },
)
const definition = {
  policy: Type.Optional(PolicyBody),
  allowed_nodes: Type.Optional(
    Type.Array(NodeId, { maxItems: 1_000, description: 'Who may take part. Left out: all.' }),
  ),
}
export const CreateGroupBody = Type.Object({ group_id: GroupId, ...definition }, { additionalProperties: false })
export const PutGroupBody = Type.Object(definition, { additionalProperties: false })

const Group = Type.Object({
  group_id: Type.String(),
  policy: Type.Object({ min_ttl_ms: Type.Integer(), max_ttl_ms: Type.Integer() }),
  allowed_nodes: Type.Union([Type.Array(Type.String()), Type.Null()]),
  explicit: Type.Boolean({ description: 'Whether somebody defined it; else it came into being by a campaign.' }),
  highest_term: Term,
  leader: Type.Union([Leader, Type.Null()]),
})
export const GroupAnswer = Type.Object({ ok: Type.Literal(true), group: Group })
export const GroupsAnswer = Type.Object({
  groups: Type.Array(Group),
  next: Type.Union([Type.String(), Type.Null()], { description: 'For `after` of the next page.' }),
})

export const HeartbeatBody = Type.Object(
  { node_id: NodeId, metadata: Type.Optional(Metadata) },
  { additionalProperties: false },
)
export const MembersAnswer = Type.Object({
  members: Type.Array(
    Type.Object({
      node_id: Type.String(),
      role: Type.Union([Type.Literal('leader'), Type.Literal('candidate'), Type.Literal('allowed')]),
      last_heartbeat_ms: Type.Union([Type.Integer(), Type.Null()]),
      metadata: Metadata,
    }),
  ),
})

const WatchEvent = Type.Object({
  type: Type.String({ description: 'LEADER_CHANGED, LEADER_LOST, RENEWED, STATE, GAP' }),
  group_id: Type.Optional(Type.String()),
  term: Type.Optional(Term),
  leader_node_id: Type.Optional(Type.String()),
  reason: Type.Optional(Type.String()),
  leader: Type.Optional(Type.Union([Leader, Type.Null()])),
  previous_leader: Type.Optional(Leader),
  highest_term: Type.Optional(Term),
  retry_after_ms: Type.Optional(Type.Integer()),
  ts_ms: Type.Integer(),
})
export const WatchAnswer = Type.Object({
  events: Type.Array(WatchEvent),
  cursor: Type.String(),
  cluster_id: Type.String(),
})
export type WatchedEvent = Static<typeof WatchEvent>
