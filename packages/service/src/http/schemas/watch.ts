import { Type, type Static } from '@sinclair/typebox'
import { ClusterId, Flag, groupPattern, leadership, named, NodeId, OneOf, Sent, Term, UnixMs } from './common.ts'

/** How many groups one request may watch. */
export const mostWatched = 1_000

/** Those of earlier versions have a point, and are answered with a gap. */
const cursor = '([A-Za-z0-9_-]{94}|[A-Za-z0-9_-]{266}|[A-Za-z0-9_-]{8,32}\\.([A-Za-z0-9_-]{59}|0|[1-9][0-9]{0,15}))'
const watchQuery = {
  cursor: Type.Optional(
    Type.String({ pattern: `^${cursor}$`, description: 'Where to go on, from an earlier answer.' }),
  ),
  node_id: Type.Optional(
    Type.String({
      ...NodeId,
      description: 'The node that watches, as a standby: it is a live member of these groups while the watch is open.',
    }),
  ),
  renewals: Type.Optional(Flag('Whether RENEWED is reported too.')),
  wait_ms: Type.Optional(
    Type.String({
      pattern: '^([1-5]?[0-9]{1,4}|60000)$',
      description: 'How long a long poll waits for an event: at most 60000. Default: 25000.',
      examples: ['0'],
    }),
  ),
}
export const WatchQuery = Sent(watchQuery)
export type WatchOptions = Static<typeof WatchQuery>
const Groups = Type.String({
  pattern: `^${groupPattern}(,${groupPattern}){0,${mostWatched - 1}}$`,
  description: `Ids of groups with commas in between: at most ${mostWatched}.`,
  examples: ['payments-coordinator,orders'],
})
export const WatchManyQuery = Sent({ groups: Groups, ...watchQuery })
export const ChangesQuery = Sent({
  groups: Groups,
  limit: Type.Optional(
    Type.String({ pattern: '^[1-9][0-9]{0,2}$', description: 'At most 999. Default: 100.', examples: ['100'] }),
  ),
})
export const WatchHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({ pattern: `^(${cursor})?$`, description: 'Like `cursor`, and preferred to it: browsers send it.' }),
  ),
})

const WatchEvent = named(
  'WatchEvent',
  {
    type: OneOf(
      'STATE: the present state. GAP: something was missed, and STATE follows for each group concerned. TOO_SLOW: the stream ends, because its reader did not keep up.',
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
    previous_leader: leadership.previous_leader,
    highest_term: Type.Optional(Term),
    retry_after_ms: leadership.retry_after_ms,
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
)
export type WatchedEvent = Static<typeof WatchEvent>
const WatchAnswer = named('WatchAnswer', {
  events: Type.Array(WatchEvent, { description: 'In order. Empty: nothing happened meanwhile.' }),
  cursor: Type.String({
    description: 'For the next request.',
    examples: ['mC3sUeF1xqz0hTt2'.repeat(6).slice(0, 94)],
  }),
  cluster_id: ClusterId,
})
export const ChangesAnswer = named(
  'ChangesAnswer',
  { changes: Type.Array(WatchEvent, { description: 'In order, without the leases.' }) },
  { description: 'The newest changes that are kept.' },
)
export const watchText =
  'With `Accept: text/event-stream` the answer is a stream of Server-Sent Events, each of them a WatchEvent with an `id` that is a cursor. Otherwise it is a long poll: without a cursor it answers with the present state, with one it waits for what comes after. An answer has at most 256 changes, and about 256 KB of states or changes: the rest comes with the next poll.'

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
