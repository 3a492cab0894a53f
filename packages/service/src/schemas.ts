/** The shapes of requests and answers. Validation, serialisation and the OpenAPI document all come from here. */
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { errorStatus, type ServiceErrorCode } from './errors.ts'

const longestMs = 2 ** 31 - 1
const groupId = '[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}'
/** How many groups one may watch at once. */
export const mostWatched = 1_000

/** Shapes that stand in the document once, under these names. */
export const shared: TSchema[] = []

function named<T extends TSchema>($id: string, schema: T) {
  shared.push({ ...schema, $id })
  return Type.Unsafe<Static<T>>({ $ref: `${$id}#` })
}

const Milliseconds = (description: string, example: number) =>
  Type.Integer({ minimum: 1, maximum: longestMs, description, examples: [example] })
const UnixMs = (description: string) => Type.Integer({ description, examples: [1735200000000] })
const Text = (maxLength: number, description: string, example: string) =>
  Type.String({ minLength: 1, maxLength, description, examples: [example] })
/** Not a union of literals, which would be tried one by one. */
const OneOf = <T extends string>(description: string, ...values: readonly T[]) =>
  Type.Unsafe<T>({ type: 'string', enum: values, description })
const Flag = (description: string) => OneOf(description, 'true', 'false')

const Term = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'The fencing token: higher with every leader.',
  examples: [42],
})
const ClusterId = Type.String({
  description: 'Names the data of this service, for ever.',
  examples: ['0b6a39c2-5b7f-4d2e-9f7a-3c1f5e2d8a10'],
})
const RetryAfter = Type.Integer({
  minimum: 1,
  description: 'It is of no use to ask again sooner.',
  examples: [800],
})

/** Letters, digits and a few signs, so that an id means one thing in a path, a log and a metric. */
const GroupId = Type.String({
  pattern: `^${groupId}$`,
  description: 'The group.',
  examples: ['payments-coordinator'],
})
const NodeId = Type.String({
  minLength: 1,
  maxLength: 256,
  pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]+$',
  description:
    'The node: at most 256 bytes in Unicode form NFC, without invisible characters and without blanks around it.',
  examples: ['node_17'],
})
/** Not a record, whose keys would be compared with a pattern whenever one is sent. */
const Metadata = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description: 'What the node tells about itself: at most 4096 bytes of JSON, at most 8 levels deep.',
  examples: [{ ip: '10.0.1.7', zone: 'az-a', version: '1.4.2' }],
})

export const GroupParams = Type.Object({ group_id: GroupId })

const Leader = named(
  'Leader',
  Type.Object(
    {
      node_id: Type.String({ description: 'The node that leads, or did.', examples: ['node_17'] }),
      term: Term,
      lease_expires_at_ms: UnixMs('When the lease runs out, as Unix time on the server’s clock: for people.'),
      lease_remaining_ms: Type.Integer({
        minimum: 0,
        description: 'How long the lease lasts from the moment of this answer. Programs use this one.',
        examples: [5000],
      }),
      lease_ttl_ms: Type.Integer({ description: 'How long it was asked for last.', examples: [5000] }),
      acquired_at_ms: UnixMs('When it came to lead.'),
      renewed_at_ms: UnixMs('When it was last heard of as leader.'),
      metadata: Metadata,
      carry: Type.String({ description: 'A small text that outlives leaders.', examples: [''] }),
      attempt: Type.String({ description: 'The candidacy that won.', examples: ['instance:7d0c'] }),
      version: Type.String({ description: 'Changes with every write.', examples: ['9f1c.42.0'] }),
    },
    { description: 'A lease, and who holds it or held it last.' },
  ),
)
const leadership = {
  leader: Type.Union([Leader, Type.Null()], { description: 'Null: nobody leads.' }),
  previous_leader: Type.Optional(Leader),
  highest_term: Term,
  retry_after_ms: Type.Optional(RetryAfter),
}

export const CampaignBody = Type.Object(
  {
    node_id: NodeId,
    lease_ttl_ms: Milliseconds('How long the lease lasts unless it is renewed.', 5000),
    metadata: Type.Optional(Metadata),
    instance_start_uuid: Type.Optional(
      Text(128, 'Names this start of the node: it gets its own lease back.', '7d0c2f2e-6c1b-4f3a-9d60-0a54d6c6f1de'),
    ),
    request_id: Type.Optional(Text(128, 'Names this request: repeated, it gets the same lease.', 'run-2026-11-15')),
    strict: Type.Optional(Type.Boolean({ description: 'A lost campaign is answered with 409.', examples: [false] })),
    wait_ms: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 60_000, description: 'How long to wait in line.', examples: [0] }),
    ),
    attempt: Type.Optional(
      Text(
        256,
        'Names this candidacy: it gets its own lease back while that lasts, and nothing right after. With `after_term` it is granted one term at most, ever.',
        'b0b5',
      ),
    ),
    after_term: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Nothing is granted if a higher term ever was; what is granted is higher.',
        examples: [41],
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [
      { node_id: 'node_17', lease_ttl_ms: 5000, metadata: { ip: '10.0.1.7', zone: 'az-a', version: '1.4.2' } },
    ],
  },
)

export const CampaignAnswer = named(
  'CampaignAnswer',
  Type.Object(
    {
      is_leader: Type.Boolean({ description: 'Whether the node leads now.', examples: [true] }),
      ...leadership,
      cluster_id: ClusterId,
    },
    { description: 'Who leads: this node, or another.' },
  ),
)

const Held = {
  node_id: NodeId,
  term: Term,
  attempt: Type.Optional(Text(256, 'With it, only a lease of this candidacy is meant.', 'b0b5')),
  version: Type.Optional(Text(256, 'With it, only this version of the lease is meant.', '9f1c.42.0')),
}
const ExtendBy = Milliseconds('The lease lasts at least this long from now.', 5000)

export const RenewBody = Type.Object(
  {
    ...Held,
    extend_by_ms: ExtendBy,
    carry: Type.Optional(Type.String({ maxLength: 4096, description: 'Replaces the carry.', examples: ['page 7'] })),
  },
  { additionalProperties: false, examples: [{ node_id: 'node_17', term: 42, extend_by_ms: 5000 }] },
)

const IsOk = Type.Literal(true, { description: 'It was done.' })
export const RenewAnswer = named(
  'RenewAnswer',
  Type.Object({ ok: IsOk, leader: Leader, cluster_id: ClusterId }, { description: 'The lease was extended.' }),
)

export const ResignBody = Type.Object(Held, {
  additionalProperties: false,
  examples: [{ node_id: 'node_17', term: 42 }],
})
export const ResignAnswer = named(
  'ResignAnswer',
  Type.Object(
    { ok: IsOk, leader: Type.Optional(Leader), cluster_id: ClusterId },
    { description: 'The lease is over.' },
  ),
)

export const LeaderAnswer = named(
  'LeaderAnswer',
  Type.Object({ ...leadership, cluster_id: ClusterId }, { description: 'Who leads.' }),
)

const Code = OneOf('What is wrong, for programs.', ...(Object.keys(errorStatus) as ServiceErrorCode[]))
const Failure = named(
  'Failure',
  Type.Object(
    {
      ok: Type.Literal(false, { description: 'It was not done.' }),
      error: Code,
      message: Type.String({ description: 'What is wrong, for people.' }),
      current_leader: Type.Optional(Type.Union([Leader, Type.Null()], { description: 'Null: nobody leads.' })),
      previous_leader: Type.Optional(Leader),
      highest_term: Type.Optional(Term),
      min_ttl_ms: Type.Optional(Type.Integer({ description: 'Of INVALID_TTL: the shortest lease.', examples: [2000] })),
      max_ttl_ms: Type.Optional(Type.Integer({ description: 'Of INVALID_TTL: the longest lease.', examples: [15000] })),
      retry_after_ms: Type.Optional(RetryAfter),
      request_id: Type.Optional(Type.String({ description: 'Names the request in the service’s log.' })),
    },
    { description: 'Every error has this shape.' },
  ),
)

const meanings: Record<number, string> = {
  400: 'INVALID_REQUEST: it makes no sense. INVALID_TTL: the duration is outside of the policy.',
  401: 'UNAUTHORIZED: it is not known who asks.',
  403: 'UNAUTHORIZED: who asks may not do this.',
  404: 'NOT_FOUND: there is no such group.',
  409: 'NOT_LEADER: this node and term do not lead. CONFLICT: something else stands in the way.',
  413: 'TOO_LARGE: the body is too large.',
  415: 'INVALID_REQUEST: the body must be application/json.',
  429: 'RATE_LIMITED: too much was asked for.',
  503: 'BACKEND_UNAVAILABLE: nothing can be made durable now.',
}

/** For the document: what every route can answer, and these beside. */
export function failures(...statuses: readonly number[]) {
  const all = [400, 401, 403, 429, 503, ...statuses]
  const content = { 'application/json': { schema: Failure } }
  return Object.fromEntries(all.map((status) => [status, { description: meanings[status], content }]))
}

/** What routes with a body can answer beside. */
export const bodyFailures = [413, 415] as const

export type RenewRequest = Static<typeof RenewBody>
export type ResignRequest = Static<typeof ResignBody>

export const Ok = named('Ok', Type.Object({ ok: IsOk }, { description: 'It is so, or was done.' }))

export const RenewManyBody = Type.Object(
  {
    node_id: NodeId,
    renewals: Type.Array(
      Type.Object({ group_id: GroupId, term: Term, extend_by_ms: ExtendBy }, { additionalProperties: false }),
      { minItems: 1, maxItems: 20_000, description: 'The leases to extend.' },
    ),
  },
  {
    additionalProperties: false,
    examples: [{ node_id: 'node_17', renewals: [{ group_id: 'payments-coordinator', term: 42, extend_by_ms: 5000 }] }],
  },
)

const RenewItem = Type.Object({
  group_id: Type.String({ description: 'The group.', examples: ['payments-coordinator'] }),
  ok: Type.Boolean({ description: 'Whether this lease was extended.' }),
  term: Type.Optional(Term),
  lease_expires_at_ms: Type.Optional(UnixMs('When the lease runs out, for people.')),
  lease_remaining_ms: Type.Optional(
    Type.Integer({ minimum: 0, description: 'How long the lease lasts from the moment of this answer.' }),
  ),
  error: Type.Optional(Code),
  message: Type.Optional(Type.String({ description: 'What is wrong, for people.' })),
  current_term: Type.Optional(Term),
})
export const RenewManyAnswer = named(
  'RenewManyAnswer',
  Type.Object(
    {
      results: Type.Array(RenewItem, { description: 'One for each renewal, in the same order.' }),
      cluster_id: ClusterId,
    },
    { description: 'What became of each.' },
  ),
)
export type RenewResult = Static<typeof RenewItem>

const definition = {
  policy: Type.Optional(
    Type.Object(
      {
        min_ttl_ms: Type.Optional(Milliseconds('The shortest lease.', 2000)),
        max_ttl_ms: Type.Optional(Milliseconds('The longest lease.', 15000)),
      },
      { additionalProperties: false, description: 'Bounds of leases. Left out: the service’s own.' },
    ),
  ),
  allowed_nodes: Type.Optional(
    Type.Array(NodeId, { maxItems: 1_000, description: 'Who may campaign, and send heartbeats. Left out: all.' }),
  ),
}
const definitionExample = {
  policy: { min_ttl_ms: 2000, max_ttl_ms: 15000 },
  allowed_nodes: ['node_01', 'node_02', 'node_03'],
}
export const CreateGroupBody = Type.Object(
  { group_id: GroupId, ...definition },
  { additionalProperties: false, examples: [{ group_id: 'payments-coordinator', ...definitionExample }] },
)
export const PutGroupBody = Type.Object(definition, { additionalProperties: false, examples: [definitionExample] })

const Group = named(
  'Group',
  Type.Object({
    group_id: Type.String({ description: 'Its id.', examples: ['payments-coordinator'] }),
    policy: Type.Object(
      {
        min_ttl_ms: Type.Integer({ description: 'The shortest lease.', examples: [2000] }),
        max_ttl_ms: Type.Integer({ description: 'The longest lease.', examples: [15000] }),
      },
      { description: 'Bounds of leases.' },
    ),
    allowed_nodes: Type.Union([Type.Array(Type.String()), Type.Null()], {
      description: 'Who may campaign, and send heartbeats. Null: all.',
    }),
    explicit: Type.Boolean({ description: 'Whether somebody defined it; else it came into being by a campaign.' }),
    highest_term: Term,
    leader: leadership.leader,
  }),
)
export const GroupAnswer = named('GroupAnswer', Type.Object({ ok: IsOk, group: Group }, { description: 'The group.' }))
export const GroupsQuery = Type.Object(
  {
    after: Type.Optional(
      Type.String({ maxLength: 256, description: '`next` of the page before.', examples: ['orders'] }),
    ),
    limit: Type.Optional(
      Type.String({ pattern: '^[1-9][0-9]{0,2}$', description: 'At most 999. Default: 100.', examples: ['100'] }),
    ),
  },
  { additionalProperties: false },
)
export const GroupsAnswer = named(
  'GroupsAnswer',
  Type.Object(
    {
      groups: Type.Array(Group, {
        description: 'Those that one may see, by id. Fewer than `limit` where many others lie in between.',
      }),
      next: Type.Union([Type.String(), Type.Null()], { description: 'For `after` of the next page. Null: the last.' }),
    },
    { description: 'A page of groups.' },
  ),
)
export const DeleteQuery = Type.Object(
  { force: Type.Optional(Flag('Also while it has a leader, whose lease runs out before anybody else leads.')) },
  { additionalProperties: false },
)

export const HeartbeatBody = Type.Object(
  { node_id: NodeId, metadata: Type.Optional(Metadata) },
  { additionalProperties: false, examples: [{ node_id: 'node_17' }] },
)
export const MembersAnswer = named(
  'MembersAnswer',
  Type.Object(
    {
      members: Type.Array(
        Type.Object({
          node_id: Type.String({ description: 'The node.', examples: ['node_17'] }),
          role: OneOf(
            'Allowed: it was named in the group’s definition, and was not heard of lately.',
            'leader',
            'candidate',
            'allowed',
          ),
          last_heartbeat_ms: Type.Union([Type.Integer(), Type.Null()], {
            description: 'When it was last heard of, as Unix time. Null: not lately.',
          }),
          metadata: Metadata,
        }),
        { description: 'Who was allowed by name, campaigned, or sends heartbeats.' },
      ),
    },
    { description: 'Who takes part.' },
  ),
)

const cursor = '[A-Za-z0-9_-]{8,32}\\.(0|[1-9][0-9]{0,15})'
const watchQuery = {
  cursor: Type.Optional(
    Type.String({ pattern: `^${cursor}$`, description: 'Where to go on, from an earlier answer.' }),
  ),
  renewals: Type.Optional(Flag('Whether RENEWED is told too.')),
  wait_ms: Type.Optional(
    Type.String({
      pattern: '^([1-5]?[0-9]{1,4}|60000)$',
      description: 'How long a long poll waits for something to tell: at most 60000. Default: 25000.',
      examples: ['0'],
    }),
  ),
}
export const WatchQuery = Type.Object(watchQuery, { additionalProperties: false })
export const WatchManyQuery = Type.Object(
  {
    groups: Type.String({
      pattern: `^${groupId}(,${groupId}){0,${mostWatched - 1}}$`,
      description: `Ids of groups with commas in between: at most ${mostWatched}.`,
      examples: ['payments-coordinator,orders'],
    }),
    ...watchQuery,
  },
  { additionalProperties: false },
)
export const WatchHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({ pattern: `^(${cursor})?$`, description: 'Like `cursor`, and before it: browsers send it.' }),
  ),
})

const WatchEvent = named(
  'WatchEvent',
  Type.Object(
    {
      type: OneOf(
        'STATE: how things stand. GAP: something was missed, and STATE follows. TOO_SLOW: the stream ends, because its reader did not keep up.',
        'LEADER_CHANGED',
        'LEADER_LOST',
        'RENEWED',
        'STATE',
        'GAP',
        'TOO_SLOW',
      ),
      group_id: Type.Optional(Type.String({ description: 'The group.', examples: ['payments-coordinator'] })),
      term: Type.Optional(Term),
      leader_node_id: Type.Optional(
        Type.String({ description: 'The node that leads; of LEADER_LOST, the one that did.', examples: ['node_09'] }),
      ),
      reason: Type.Optional(OneOf('Of LEADER_LOST: why.', 'expired', 'resigned', 'deleted')),
      leader: Type.Optional(leadership.leader),
      previous_leader: Type.Optional(Leader),
      highest_term: Type.Optional(Term),
      retry_after_ms: Type.Optional(RetryAfter),
      ts_ms: UnixMs('When it happened, for people.'),
    },
    {
      examples: [
        {
          type: 'LEADER_CHANGED',
          group_id: 'payments-coordinator',
          term: 44,
          leader_node_id: 'node_09',
          ts_ms: 1735200010000,
        },
      ],
    },
  ),
)
export type WatchedEvent = Static<typeof WatchEvent>
const WatchAnswer = named(
  'WatchAnswer',
  Type.Object({
    events: Type.Array(WatchEvent, { description: 'In order. None: nothing happened meanwhile.' }),
    cursor: Type.String({ description: 'For the next request.', examples: ['9f1c2d3e4b5a6978.17'] }),
    cluster_id: ClusterId,
  }),
)
export const watchText =
  'With `Accept: text/event-stream` the answer is a stream of Server-Sent Events, each of them a WatchEvent with an `id` that is a cursor. Otherwise it is a long poll: without a cursor it tells how things stand, with one it waits for what comes after. It tells at most 256 changes, or about 256 KB of them, at once: the rest comes with the next one.'

/** A watch answers in one of two ways. */
export const watchResponses = {
  200: {
    description: 'What happened.',
    content: {
      'application/json': { schema: WatchAnswer },
      'text/event-stream': { schema: Type.String({ description: 'A stream of WatchEvent.' }) },
    },
  },
}
