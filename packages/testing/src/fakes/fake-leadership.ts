import { LeadershipLostError, type Leadership, type LossReason } from 'tenure'
import { checkOptions, createLeadership } from 'tenure/internal'

/** A leadership for testing the code that runs under it. It lasts until the test ends it. */
export interface FakeLeadership extends Leadership {
  /** Ends the leadership: the signal aborts and `isLeader()` returns false. Default reason: `expired`. */
  lose(reason?: LossReason): void
  /** Resolves when all work passed to `waitUntil` has settled. Rejects with the first failure. */
  settled(): Promise<void>
}

/**
 * Creates a leadership without an election.
 *
 * @example
 * const leadership = fakeLeadership({ term: 7 })
 * const done = work(leadership)
 * leadership.lose()
 * await done
 */
export function fakeLeadership(
  options: {
    term?: number | undefined
    election?: string | undefined
    identity?: string | undefined
    checkpoint?: string | undefined
  } = {},
): FakeLeadership {
  checkOptions('fakeLeadership()', options, { term: true, election: true, identity: true, checkpoint: true })
  const { term = 1, election = 'fake-election', identity = 'fake-identity' } = options
  const work: Promise<unknown>[] = []
  let checkpoint = options.checkpoint ?? ''
  const leads = () => leadership.loss === undefined
  const leadership = createLeadership(
    {
      election,
      identity,
      checkpointLimitBytes: 32_768,
      leads,
      remainingMs: () => (leads() ? 10_000 : 0),
      drainMs: () => (leads() ? 14_700 : 4_700),
      stalledMs: () => 0,
      checkpoint: () => checkpoint,
      mayWriteCheckpoint: leads,
      setCheckpoint: async (_leadership, text) => void (checkpoint = text),
      track: (_leadership, promise) => {
        if (!leads()) throw leadership.loss ?? new LeadershipLostError(election, term, 'expired')
        promise.catch(() => undefined)
        work.push(promise)
      },
      progress: () => undefined,
      stepDown: (_leadership, { to }) => void leadership.end(to === undefined ? 'released' : 'handed-over'),
    },
    term,
  )
  return Object.assign(leadership, {
    lose: (reason: LossReason = 'expired') => void leadership.end(reason),
    settled: async () => void (await Promise.all(work)),
  })
}
