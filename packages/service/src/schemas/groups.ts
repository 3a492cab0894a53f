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
        min_ttl_ms: Type.Optional(Milliseconds('The shortest allowed lease duration.', 2000)),
        max_ttl_ms: Type.Optional(Milliseconds('The longest allowed lease duration.', 15000)),
      },
      { additionalProperties: false, description: 'Limits for lease durations. Default: the service’s policy.' },
    ),
  ),
  allowed_nodes: Type.Optional(
    Type.Array(NodeId, { maxItems: 1_000, description: 'Nodes that may campaign and send heartbeats. Default: all.' }),
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
  group_id: Type.String({ description: 'The id of the group.', examples: ['payments-coordinator'] }),
  policy: Type.Object(
    {
      min_ttl_ms: Type.Integer({ description: 'The shortest allowed lease duration.', examples: [2000] }),
      max_ttl_ms: Type.Integer({ description: 'The longest allowed lease duration.', examples: [15000] }),
    },
    { description: 'Limits for lease durations.' },
  ),
  allowed_nodes: Type.Union([Type.Array(Type.String()), Type.Null()], {
    description: 'Nodes that may campaign and send heartbeats, or null for all.',
  }),
  explicit: Type.Boolean({ description: 'Whether the group was defined. Otherwise a campaign created it.' }),
  highest_term: Term,
  leader: leadership.leader,
  previous_leader: leadership.previous_leader,
  candidates: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: 'Nodes that recently campaigned or sent a heartbeat, without the leader.',
      examples: [2],
    }),
  ),
  standbys: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Candidates that are live: see the members.', examples: [1] }),
  ),
  waiting: Type.Optional(Type.Integer({ minimum: 0, description: 'Campaigns in the queue now.', examples: [1] })),
})
export const GroupAnswer = named('GroupAnswer', { ok: IsOk, group: Group }, { description: 'The group.' })
export const DefinedAnswer = named(
  'DefinedAnswer',
  { ok: IsOk, group: Group, removed_leader: Type.Optional(Leader) },
  {
    description:
      'The group in its new state. `removed_leader` is set if the leader is no longer allowed, and so cannot renew its lease.',
  },
)
export const GroupsQuery = Sent({
  after: Type.Optional(
    Type.String({ maxLength: 256, description: 'The `next` of the previous page.', examples: ['orders'] }),
  ),
  search: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 128,
      description:
        'Only groups whose id contains this text, ignoring case. A page before the last one may have few groups, or none.',
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
      description: 'The groups that the caller may read, by id. Fewer than `limit` if many others are in between.',
    }),
    next: Type.Union([Type.String(), Type.Null()], {
      description: 'The `after` of the next page, or null on the last page.',
    }),
    total: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'The number of groups. Only for callers that may read all, and without `search`.',
      }),
    ),
  },
  { description: 'A page of groups.' },
)
export const DeleteQuery = Sent({
  force: Type.Optional(
    Flag('Deletes the group even while it has a leader. Nobody else leads before that lease would have expired.'),
  ),
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
        node_id: Type.String({ description: 'The id of the node.', examples: ['node_17'] }),
        role: OneOf(
          '`allowed` means that the group’s definition names the node, but it has sent nothing recently.',
          'leader',
          'candidate',
          'allowed',
        ),
        last_heartbeat_ms: Type.Union([Type.Integer(), Type.Null()], {
          description: 'When the node last sent something, in Unix milliseconds, or null if not recently.',
        }),
        instance_start_uuid: Type.Optional(
          Type.String({
            description:
              'The id of the node’s start, if it named one. Otherwise the attempt that holds its seat, if any.',
            examples: ['7d0c'],
          }),
        ),
        metadata: Metadata,
        waiting: Type.Optional(Type.Boolean({ description: 'Whether a campaign of the node is in the queue now.' })),
        live: Type.Optional(
          Type.Boolean({
            description:
              'Whether the node leads, or would take over: it has a campaign in the queue, an open watch that names it, or it sent its last heartbeat or campaign in time.',
          }),
        ),
        seat: Type.Optional(
          Type.Integer({ minimum: 0, description: 'The number of the seat that the node holds, if it has one.' }),
        ),
        generation: Type.Optional(
          Type.Integer({ description: 'The number of the rollout that the seat of the node names, if any.' }),
        ),
        eligible: Type.Optional(
          Type.Boolean({ description: 'Whether the node could lead, as its seat reports. Only with a seat.' }),
        ),
      }),
      { description: 'Nodes that are allowed by name, have campaigned, or send heartbeats.' },
    ),
  },
  { description: 'The nodes that take part in the group.' },
)
