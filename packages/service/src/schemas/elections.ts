import { Type, type Static } from '@sinclair/typebox'
import {
  ClusterId,
  GroupId,
  Instance,
  IsOk,
  Leader,
  leadership,
  Metadata,
  Milliseconds,
  named,
  NodeId,
  OptionalNodeId,
  OptionalText,
  SameGroup,
  Sent,
  Term,
  UnixMs,
} from './common.ts'
import { Code } from './failures.ts'

const WriteId = OptionalText(256, 'A write id, shown with the lease, so that a node recognizes its own writes.', 'c4f1')

export const CampaignBody = Sent(
  {
    node_id: NodeId,
    lease_ttl_ms: Milliseconds('How long the lease lasts unless it is renewed.', 5000),
    metadata: Type.Optional(Metadata),
    group_id: SameGroup,
    instance_start_uuid: Instance('Identifies this start of the node. The same start gets its own lease again.'),
    request_id: OptionalText(
      128,
      'Identifies this request. If it is repeated, it gets the same lease.',
      'run-2026-11-15',
    ),
    strict: Type.Optional(
      Type.Boolean({ description: 'If true, a lost campaign gets the status 409.', examples: [false] }),
    ),
    wait_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 60_000,
        description: 'How long to wait in the campaign queue.',
        examples: [0],
      }),
    ),
    attempt: OptionalText(
      256,
      'Identifies this campaign. While its lease lasts, repeating it gets the same lease, and nothing right after. With `after_term` it is granted at most one term, ever.',
      'b0b5',
    ),
    after_term: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description:
          'Only grants a term above this one, and none if a higher term was ever granted. May be at most 2^20 above the group’s highest term, or 2^32 for an administrator.',
        examples: [41],
      }),
    ),
    write_id: WriteId,
  },
  { node_id: 'node_17', lease_ttl_ms: 5000, metadata: { ip: '10.0.1.7', zone: 'az-a', version: '1.4.2' } },
)

export const CampaignAnswer = named(
  'CampaignAnswer',
  {
    is_leader: Type.Boolean({ description: 'Whether the node is the leader now.', examples: [true] }),
    ...leadership,
    message: Type.Optional(
      Type.String({
        description: 'Readable text that says what to do if this node already leads through another campaign.',
      }),
    ),
    cluster_id: ClusterId,
  },
  { description: 'The outcome of the campaign, and the leader.' },
)

const Held = {
  node_id: NodeId,
  term: Term,
  group_id: SameGroup,
  instance_start_uuid: Instance(
    'This start of the node. If given, it must match the start that the lease was granted to.',
  ),
  attempt: OptionalText(256, 'If given, it must match the campaign that the lease was granted to.', 'b0b5'),
  version: OptionalText(256, 'If given, it must match the version of the lease.', '9f1c.42.0'),
  write_id: WriteId,
}
const ExtendBy = Milliseconds('How long the lease lasts from now, at least.', 5000)

export const RenewBody = Sent(
  {
    ...Held,
    extend_by_ms: ExtendBy,
    checkpoint: Type.Optional(
      Type.String({
        maxLength: 4096,
        description: 'Replaces the checkpoint: at most 4096 bytes in UTF-8.',
        examples: ['page 7'],
      }),
    ),
  },
  { node_id: 'node_17', term: 42, extend_by_ms: 5000 },
)

export const RenewAnswer = named(
  'RenewAnswer',
  { ok: IsOk, leader: Leader, cluster_id: ClusterId },
  { description: 'The lease was extended.' },
)

export const ResignBody = Sent(
  {
    ...Held,
    successor: OptionalNodeId(
      'The node that should lead next, a node other than node_id. Its campaigns come first, and those of other nodes wait for at most 2 s.',
      'node_3',
    ),
    force: Type.Optional(
      Type.Boolean({
        description:
          'For administrators: ends the term of a node that may still be working. Nobody else leads before its lease would have expired.',
        examples: [false],
      }),
    ),
  },
  { node_id: 'node_17', term: 42 },
)
export const ResignAnswer = named(
  'ResignAnswer',
  { ok: IsOk, leader: Type.Optional(Leader), cluster_id: ClusterId },
  { description: 'The lease has ended.' },
)

export const LeaderAnswer = named(
  'LeaderAnswer',
  { ...leadership, cluster_id: ClusterId },
  { description: 'The leader.' },
)

export type ResignRequest = Static<typeof ResignBody>

export const RenewManyBody = Sent(
  {
    node_id: NodeId,
    renewals: Type.Array(Sent({ group_id: GroupId, term: Term, extend_by_ms: ExtendBy }), {
      minItems: 1,
      maxItems: 20_000,
      description: 'The leases to extend.',
    }),
  },
  { node_id: 'node_17', renewals: [{ group_id: 'payments-coordinator', term: 42, extend_by_ms: 5000 }] },
)

const RenewItem = Type.Object({
  group_id: Type.String({ description: 'The group.', examples: ['payments-coordinator'] }),
  ok: Type.Boolean({ description: 'Whether this lease was extended.' }),
  term: Type.Optional(Term),
  lease_expires_at_ms: Type.Optional(UnixMs('When the lease expires. For display only.')),
  lease_remaining_ms: Type.Optional(
    Type.Integer({ minimum: 0, description: 'How long the lease lasts from the moment of this response.' }),
  ),
  error: Type.Optional(Code),
  message: Type.Optional(Type.String({ description: 'What is wrong, as readable text.' })),
  current_term: Type.Optional(Term),
})
export const RenewManyAnswer = named(
  'RenewManyAnswer',
  {
    results: Type.Array(RenewItem, { description: 'One for each renewal, in the same order.' }),
    cluster_id: ClusterId,
  },
  { description: 'The result of each renewal.' },
)
export type RenewManyRequest = Static<typeof RenewManyBody>
export type RenewResult = Static<typeof RenewItem>
