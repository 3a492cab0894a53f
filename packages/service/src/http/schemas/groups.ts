import { Type } from '@sinclair/typebox'
import {
  Flag,
  GroupId,
  Instance,
  IsOk,
  Leader,
  leadership,
  Metadata,
  Milliseconds,
  named,
  NodeId,
  OneOf,
  SameGroup,
  Sent,
  Term,
} from './common.ts'

const definition = {
  policy: Type.Optional(
    Type.Object(
      {
        min_ttl_ms: Type.Optional(Milliseconds('The shortest lease.', 2000)),
        max_ttl_ms: Type.Optional(Milliseconds('The longest lease.', 15000)),
      },
      { additionalProperties: false, description: 'Bounds of lease durations. Left out: the service’s own.' },
    ),
  ),
  allowed_nodes: Type.Optional(
    Type.Array(NodeId, { maxItems: 1_000, description: 'Nodes that may campaign and send heartbeats. Left out: all.' }),
  ),
}
const definitionExample = {
  policy: { min_ttl_ms: 2000, max_ttl_ms: 15000 },
  allowed_nodes: ['node_01', 'node_02', 'node_03'],
}
export const CreateGroupBody = Sent(
  { group_id: GroupId, ...definition },
  { group_id: 'payments-coordinator', ...definitionExample },
)
export const PutGroupBody = Sent(definition, definitionExample)

const Group = named('Group', {
  group_id: Type.String({ description: 'Its id.', examples: ['payments-coordinator'] }),
  policy: Type.Object(
    {
      min_ttl_ms: Type.Integer({ description: 'The shortest lease.', examples: [2000] }),
      max_ttl_ms: Type.Integer({ description: 'The longest lease.', examples: [15000] }),
    },
    { description: 'Bounds of lease durations.' },
  ),
  allowed_nodes: Type.Union([Type.Array(Type.String()), Type.Null()], {
    description: 'Nodes that may campaign and send heartbeats. Null: all.',
  }),
  explicit: Type.Boolean({ description: 'Whether it was defined; otherwise a campaign created it.' }),
  highest_term: Term,
  leader: leadership.leader,
  previous_leader: leadership.previous_leader,
  candidates: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: 'Nodes that campaigned or sent a heartbeat lately, without the leader.',
      examples: [2],
    }),
  ),
  standbys: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Those of them that are live: see the members.', examples: [1] }),
  ),
  waiting: Type.Optional(Type.Integer({ minimum: 0, description: 'Campaigns that wait in line now.', examples: [1] })),
})
export const GroupAnswer = named('GroupAnswer', { ok: IsOk, group: Group }, { description: 'The group.' })
export const DefinedAnswer = named(
  'DefinedAnswer',
  { ok: IsOk, group: Group, removed_leader: Type.Optional(Leader) },
  {
    description:
      'The group as it is now. `removed_leader`: it leads, is no longer allowed, and cannot renew its lease.',
  },
)
export const GroupsQuery = Sent({
  after: Type.Optional(
    Type.String({ maxLength: 256, description: '`next` of the page before.', examples: ['orders'] }),
  ),
  search: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 128,
      description:
        'Only groups whose id contains this, in upper or lower case. A page may be short, even empty, before the last one.',
      examples: ['payments'],
    }),
  ),
  limit: Type.Optional(
    Type.String({ pattern: '^[1-9][0-9]{0,2}$', description: 'At most 999. Default: 100.', examples: ['100'] }),
  ),
})
export const GroupsAnswer = named(
  'GroupsAnswer',
  {
    groups: Type.Array(Group, {
      description: 'Those that the caller may see, by id. Fewer than `limit` if many others are in between.',
    }),
    next: Type.Union([Type.String(), Type.Null()], { description: 'For `after` of the next page. Null: the last.' }),
    total: Type.Optional(
      Type.Integer({ minimum: 0, description: 'How many there are: for callers that see all, without `search`.' }),
    ),
  },
  { description: 'A page of groups.' },
)
export const DeleteQuery = Sent({
  force: Type.Optional(Flag('Even while it has a leader, whose lease runs out before anybody else leads.')),
})

export const HeartbeatBody = Sent(
  {
    node_id: NodeId,
    group_id: SameGroup,
    instance_start_uuid: Instance('This start of the node. Shown with the member.'),
    metadata: Type.Optional(Metadata),
  },
  { node_id: 'node_17' },
)
export const MembersAnswer = named(
  'MembersAnswer',
  {
    members: Type.Array(
      Type.Object({
        node_id: Type.String({ description: 'The node.', examples: ['node_17'] }),
        role: OneOf(
          'Allowed: the group’s definition names it, and it has sent nothing lately.',
          'leader',
          'candidate',
          'allowed',
        ),
        last_heartbeat_ms: Type.Union([Type.Integer(), Type.Null()], {
          description: 'When it last sent something, as Unix time. Null: not lately.',
        }),
        instance_start_uuid: Type.Optional(
          Type.String({ description: 'Its start, if it named one.', examples: ['7d0c'] }),
        ),
        metadata: Metadata,
        waiting: Type.Optional(Type.Boolean({ description: 'Whether a campaign of it waits in line now.' })),
        live: Type.Optional(
          Type.Boolean({
            description:
              'Whether it leads, or would take over: a campaign of it waits in line, a watch that names it is open, or it was heard from when it was due.',
          }),
        ),
      }),
      { description: 'Nodes that are allowed by name, have campaigned, or send heartbeats.' },
    ),
  },
  { description: 'The nodes that take part.' },
)
