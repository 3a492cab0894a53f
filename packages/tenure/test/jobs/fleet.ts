import { createJobs, type JobContext, type JobEvent, type Jobs, type JobsOptions } from '../../src/jobs/index.ts'
import type { Clock } from '../../src/index.ts'
import { memoryStore, type MemoryStore } from '../../src/stores/memory/index.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore, type FaultyStore } from '../faulty-store.ts'

/** A process of a fleet in virtual time. */
export interface Member {
  readonly name: string
  readonly jobs: Jobs
  readonly events: JobEvent[]
  readonly link: FaultyStore
  /** How far the wall clock of this process is ahead of the others. */
  readonly time: { aheadMs: number }
  /** Simulates a crash: no later call of this process reaches the store, and its work never settles. */
  crash(): void
}

export interface Ran {
  readonly by: string
  readonly scheduledAt: string
  readonly term: number
  readonly atMs: number
  endedMs?: number
}

export interface Fleet {
  readonly clock: FakeClock
  readonly memory: MemoryStore
  readonly ran: Ran[]
  member(name: string, more?: Partial<JobsOptions> & { readonly aheadMs?: number }): Member
  /** Work that takes `takesMs` and ends early when its signal aborts. */
  work(name: string, takesMs?: number): (context: JobContext) => Promise<void>
  close(): Promise<void>
}

/** `library` is the module under test. Pass a mutant to check that it is caught. */
export function fleet(library: { readonly createJobs: typeof createJobs } = { createJobs }): Fleet {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const ran: Ran[] = []
  const members: Member[] = []
  return {
    clock,
    memory,
    ran,
    member(name, { aheadMs = 0, ...more } = {}) {
      const link = faultyStore(memory, clock)
      const events: JobEvent[] = []
      const time = { aheadMs }
      const member: Member = {
        name,
        link,
        events,
        time,
        jobs: library.createJobs({
          store: link,
          identity: name,
          clock: clockAhead(clock, () => time.aheadMs),
          observer: { onEvent: () => undefined, onJob: (event) => void events.push(event) },
          ...more,
        }),
        crash: () => cutOff(link),
      }
      members.push(member)
      return member
    },
    work:
      (name, takesMs = 0) =>
      async ({ scheduledAt, term, signal }) => {
        const run: Ran = { by: name, scheduledAt: scheduledAt.toISOString(), term, atMs: clock.wallMs() }
        ran.push(run)
        if (takesMs > 0) {
          await new Promise<void>((resolve, reject) => {
            const timer = clock.setTimer(takesMs, resolve)
            const end = () => (timer.cancel(), reject(signal.reason as Error))
            if (signal.aborted) end()
            else signal.addEventListener('abort', end, { once: true })
          })
        }
        run.endedMs = clock.wallMs()
      },
    async close() {
      await Promise.all([...members.map(({ jobs }) => jobs.close()), clock.advance(120_000)])
    },
  }
}

function clockAhead(clock: FakeClock, aheadMs: () => number): Clock {
  return { ...clock, wallMs: () => clock.wallMs() + aheadMs() }
}
