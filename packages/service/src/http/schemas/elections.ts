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
  OptionalText,
  SameGroup,
  Sent,
  Term,
  UnixMs,
} from './common.ts'
import { Code } from './failures.ts'

const Mark = OptionalText(256, 'Shown with the lease, so that a node recognises its own writes.', 'c4f1')

export const CampaignBody = Sent(
  {
    node_id: NodeId,
    lease_ttl_ms: Milliseconds('How long the lease lasts unless it is renewed.', 5000),
    metadata: Type.Optional(Metadata),
    group_id: SameGroup,
    instance_start_uuid: Instance('Identifies this start of the node: it gets its own lease back.'),
    request_id: OptionalText(128, 'Identifies this request: repeated, it gets the same lease.', 'run-2026-11-15'),
    strict: Type.Optional(Type.Boolean({ description: 'A lost campaign is answered with 409.', examples: [false] })),
    wait_ms: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 60_000, description: 'How long to wait in line.', examples: [0] }),
    ),
    attempt: OptionalText(
      256,
      'Identifies this candidacy: it gets its own lease back while that lasts, and nothing right after. With `after_term` it is granted one term at most, ever.',
      'b0b5',
    ),
    after_term: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description:
          'No term is granted if a higher one ever was; a granted term is higher. At most 2^20 above the group’s highest term; 2^32 for an administrator.',
        examples: [41],
      }),
    ),
    mark: Mark,
  },
  { node_id: 'node_17', lease_ttl_ms: 5000, metadata: { ip: '10.0.1.7', zone: 'az-a', version: '1.4.2' } },
)

export const CampaignAnswer = named(
  'CampaignAnswer',
  {
    is_leader: Type.Boolean({ description: 'Whether the node leads now.', examples: [true] }),
    ...leadership,
    message: Type.Optional(
      Type.String({ description: 'What to do, if this node leads already by another campaign: for people.' }),
    ),
    cluster_id: ClusterId,
  },
  { description: 'The leader: this node, or another.' },
)

const Held = {
  node_id: NodeId,
  term: Term,
  group_id: SameGroup,
  instance_start_uuid: Instance('This start of the node. If the lease was granted to another one, it is not meant.'),
  attempt: OptionalText(256, 'If given, only a lease of this candidacy is meant.', 'b0b5'),
  version: OptionalText(256, 'If given, only this version of the lease is meant.', '9f1c.42.0'),
  mark: Mark,
}
const ExtendBy = Milliseconds('The lease lasts at least this long from now.', 5000)

export const RenewBody = Sent(
  {
    ...Held,
    extend_by_ms: ExtendBy,
    carry: Type.Optional(
      Type.String({
        maxLength: 4096,
        description: 'Replaces the carry: at most 4096 bytes in UTF-8.',
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
    force: Type.Optional(
      Type.Boolean({
        description:
          'Ends the term of a node that may still work, as an administrator: nobody else leads before its lease would have run out.',
        examples: [false],
      }),
    ),
  },
  { node_id: 'node_17', term: 42 },
)
export const ResignAnswer = named(
  'ResignAnswer',
  { ok: IsOk, leader: Type.Optional(Leader), cluster_id: ClusterId },
  { description: 'The lease is over.' },
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
  {
    results: Type.Array(RenewItem, { description: 'One for each renewal, in the same order.' }),
    cluster_id: ClusterId,
  },
  { description: 'The result of each renewal.' },
)
export type RenewManyRequest = Static<typeof RenewManyBody>
export type RenewResult = Static<typeof RenewItem>
