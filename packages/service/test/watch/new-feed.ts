import { positionOf } from '../../src/storage/position.ts'
import { Feed } from '../../src/watch/feed.ts'

/** A feed of a service whose data had one batch when it started. */
export function newFeed({ secret = 'secret', seq = 1, limit = 1_000 } = {}): Feed {
  return new Feed({ secret, position: positionOf({ restores: 0, term: 0, seq }), limit })
}
