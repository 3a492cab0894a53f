/** A fleet in virtual time whose processes run jobs and are killed and paused at random. */
import { checkRuns, noteRun, type RunLine, type RunsCheck } from '../../../../test/jobs/check-runs.ts'
import type * as library from '../../src/jobs/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { Random } from '../../../testing/src/simulation/random.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { faultyStore, type FaultyStore } from '../faulty-store.ts'
import { call } from '../promise-outcome.ts'
import { stallable } from '../stallable-clock.ts'

export interface VirtualRun {
  readonly seed: number
  readonly times: number
  /** Whether the wall clocks of the processes are hours apart and jump. If so, a time may stay without a run. */
  readonly hasWrongClocks?: boolean | undefined
  readonly sharedLeader?: string | undefined
}

const jobs = ['one', 'two', 'three', 'four']
const intervalMs = 60_000
const size = 3

/** One process, from its start until it is killed. */
interface Life {
  readonly by: string
  readonly link: FaultyStore
  readonly jobs: library.Jobs
  readonly time: { aheadMs: number; isDead: boolean }
  stall(): void
  resume(): void
}

export async function runVirtualFleet(
  { createJobs, jobStatus }: typeof library,
  { seed, times, hasWrongClocks = false, sharedLeader }: VirtualRun,
): Promise<RunsCheck> {
  const random = new Random(seed)
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const lines: RunLine[] = []
  const noted = new Map<string, string>()
  const victims = new Set<string>()
  const settled: Promise<unknown>[] = []
  let lives = 0

  const begin = (): Life => {
    const by = `life-${(lives += 1)}`
    const link = faultyStore(memory, clock)
    const time = { aheadMs: hasWrongClocks ? random.between(-2, 2) * 3_600_000 : 0, isDead: false }
    const own = stallable({ ...clock, wallMs: () => clock.wallMs() + time.aheadMs })
    const passed = (ms: number) => new Promise<void>((resolve) => own.setTimer(ms, resolve))
    const observer = { onEvent: () => undefined, onJob: () => undefined }
    const made = createJobs({ store: link, identity: by, clock: own, observer, sharedLeader })
    for (const job of jobs) {
      const takesMs = random.chance(0.4) ? random.between(20_000, 50_000) : random.magnitude(10, 10_000)
      const failures = random.chance(0.3) ? 2 : 0
      const options = { name: job, retries: 2, retryDelayMs: 2_000 }
      made.every({ milliseconds: intervalMs }, options, async ({ scheduledAt, term, signal, tries }) => {
        const log = (event: RunLine['event']) => {
          const at = clock.monotonicMs()
          if (!time.isDead) lines.push({ event, job, slotMs: scheduledAt.getTime(), by, term, at })
        }
        if (tries === 1) log('begin')
        for (let step = 0; step < 10 && !signal.aborted; step += 1) {
          log('works')
          await passed(takesMs / 10)
          // After a stall this timer may fire before the one that aborts the signal.
          await passed(0)
        }
        signal.throwIfAborted()
        if (tries <= failures) throw new Error('not yet')
        log('end')
      })
    }
    return { by, link, jobs: made, time, stall: () => own.stall(), resume: () => own.resume() }
  }

  const members = Array.from({ length: size }, begin)
  const look = async () => {
    for (const job of jobs) {
      const record = await memory.read(job, call)
      for (const run of (record && jobStatus(record)?.runs) ?? []) noteRun(noted, job, run)
    }
  }
  const firstMs = clock.wallMs() + intervalMs
  const slots = Array.from({ length: times }, (_, index) => firstMs + index * intervalMs)
  for (const slotMs of slots) {
    // Advance to around the moment at which the jobs are due.
    await clock.advance(Math.max(0, slotMs + random.between(-15_000, 30_000) - clock.wallMs()))
    await look()
    const index = Math.floor(random.next() * size)
    const member = members[index]
    if (!member) continue
    victims.add(member.by)
    if (hasWrongClocks) member.time.aheadMs += random.between(-1, 1) * 3_600_000
    if (random.chance(0.5)) {
      member.time.isDead = true
      member.link.fault = () => 'error'
      settled.push(member.jobs.close())
      members[index] = begin()
    } else {
      member.stall()
      await clock.advance(random.between(1_000, 25_000))
      member.resume()
    }
    await look()
  }
  await clock.advance(2 * intervalMs)
  await look()
  settled.push(...members.map((member) => member.jobs.close()))
  await Promise.all([...settled, clock.advance(600_000)])
  return checkRuns({ lines, jobs, slots: hasWrongClocks ? [] : slots, noted, victims })
}
