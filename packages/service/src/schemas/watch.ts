import { Type, type Static } from '@sinclair/typebox'
import { ClusterId, Flag, groupPattern, leadership, named, NodeId, OneOf, Sent, Term, UnixMs } from './common.ts'

/** How many groups one request may watch. */
export const maxWatched = 1_000

const cursor = '([A-Za-z0-9_-]{94}|[A-Za-z0-9_-]{266})'
const watchQuery = {
  cursor: Type.Optional(
    Type.String({ pattern: `^${cursor}$`, description: 'Where to continue, from an earlier response.' }),
  ),
  node_id: Type.Optional(
    Type.String({
      ...NodeId,
      description:
        'The node that watches as a standby. It counts as a live member of these groups while the watch is open.',
    }),
  ),
  renewals: Type.Optional(Flag('Whether RENEWED events are sent too.')),
  wait_ms: Type.Optional(
    Type.String({
      pattern: '^([1-5]?[0-9]{1,4}|60000)$',
      description: 'How long a long poll waits for an event, at most 60000. Default: 25000.',
      examples: ['0'],
    }),
  ),
}
export const WatchQuery = Sent(watchQuery)
export type WatchQuery = Static<typeof WatchQuery>
const Groups = Type.String({
  pattern: `^${groupPattern}(,${groupPattern}){0,${maxWatched - 1}}$`,
  description: `Group ids, separated by commas, at most ${maxWatched}.`,
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
    Type.String({ pattern: `^(${cursor})?$`, description: 'Like `cursor`, which it overrides. Browsers send it.' }),
  ),
})

const WatchEvent = named(
  'WatchEvent',
  {
    type: OneOf(
      'STATE: the current state. GAP: some events were missed, and STATE follows for each affected group. TOO_SLOW: the stream ends, because its reader did not keep up.',
      'LEADER_CHANGED',
      'LEADER_LOST',
      'RENEWED',
      'STATE',
      'GAP',
      'TOO_SLOW',
    ),
    group_id: Type.Optional(Type.String({ description: 'The id of the group.', examples: ['payments-coordinator'] })),
    term: Type.Optional(Term),
    leader_node_id: Type.Optional(
      Type.String({ description: 'The leader. With LEADER_LOST: the former leader.', examples: ['node_09'] }),
    ),
    reason: Type.Optional(OneOf('With LEADER_LOST: why the term ended.', 'expired', 'resigned', 'deleted')),
    leader: Type.Optional(leadership.leader),
    previous_leader: leadership.previous_leader,
    highest_term: Type.Optional(Term),
    retry_after_ms: leadership.retry_after_ms,
    ts_ms: UnixMs('When it happened. For display only.'),
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
  events: Type.Array(WatchEvent, { description: 'The events in order. Empty if nothing happened.' }),
  cursor: Type.String({
    description: 'The cursor for the next request.',
    examples: ['mC3sUeF1xqz0hTt2'.repeat(6).slice(0, 94)],
  }),
  cluster_id: ClusterId,
})
export const ChangesAnswer = named(
  'ChangesAnswer',
  { changes: Type.Array(WatchEvent, { description: 'The changes in order, without the leases.' }) },
  { description: 'The newest changes that are kept.' },
)
export const watchText =
  'With `Accept: text/event-stream` the response is a stream of Server-Sent Events, each a WatchEvent whose `id` is a cursor. Otherwise it is a long poll: without a cursor it returns the current state, and with a cursor it waits for later events. A response has at most 256 changes, and about 256 KB of states or changes. The rest comes with the next poll.'

/** A watch responds either with the JSON of a long poll or with a stream. */
export const watchResponses = {
  200: {
    description: 'The events.',
    content: {
      'application/json': { schema: WatchAnswer },
      'text/event-stream': { schema: Type.String({ description: 'A stream of WatchEvent.' }) },
    },
  },
}
