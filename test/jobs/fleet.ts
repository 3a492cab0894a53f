/** Processes that run the jobs of a fleet while they are killed and paused. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { onTestFinished, vi } from 'vitest'
import { jobStatus } from 'tenure/jobs'
import { openStore } from 'tenure/stores'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import { checkRuns, noteRun, type RunLine, type RunsCheck } from './check-runs.ts'

/** The options of a process. */
export interface RunnerOptions {
  readonly url: string
  readonly identity: string
  readonly jobs: readonly string[]
  readonly intervalMs: number
  readonly leaseDurationMs: number
  readonly logPath: string
  /** How far the wall clock of the process is ahead. */
  readonly aheadMs: number
  readonly library: string | undefined
  readonly sharedLeader: string | undefined
}

export interface JobFleetOptions {
  readonly url: string
  /** The number of slots to run, over all jobs. */
  readonly times: number
  readonly sharedLeader?: string
  /** A folder with another build of the library. Default: the build of this repository. */
  readonly library?: string | undefined
  /** How far the wall clock of each process is ahead. */
  readonly aheadMs?: (index: number) => number
  /** Only pauses processes, each at the moment when the jobs are due, and kills none. */
  readonly onlyPauses?: boolean | undefined
  /** Ends the run early when this returns true for the observations so far. */
  readonly isEnough?: (verdict: RunsCheck) => boolean
  readonly seed?: number
}

export interface JobFleetReport extends RunsCheck {
  readonly kills: number
  readonly pauses: number
}

const size = 3
const jobs = Array.from({ length: 20 }, (_, index) => `job-${index + 1}`)
/** Longer than a takeover, even on a busy machine. If several slots are due by then, only the newest is run. */
const intervalMs = 6_000
const leaseDurationMs = 2_400

/** Runs the fleet through its slots, while one process at a time is killed or paused at random. */
export async function runJobFleet(options: JobFleetOptions): Promise<JobFleetReport> {
  const { url, times, library, sharedLeader, aheadMs = () => 0, isEnough = () => false, onlyPauses = false } = options
  const seed = options.seed ?? Date.now() & 0xffff
  const random = new Random(seed)
  const folder = mkdtempSync(join(tmpdir(), 'tenure-jobs-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  const store = await openStore(url)
  const noted = new Map<string, string>()
  let lives = 0
  const begin = async (index: number): Promise<ChildProcess> => {
    const identity = `runner-${index + 1}-${(lives += 1)}`
    const logPath = join(folder, identity)
    const runner: RunnerOptions = {
      url,
      identity,
      jobs,
      intervalMs,
      leaseDurationMs,
      logPath,
      library,
      sharedLeader,
      aheadMs: aheadMs(index),
    }
    const child = fork(join(import.meta.dirname, 'job-process.mjs'), [JSON.stringify(runner)])
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child, 'message')
    return child
  }
  const members = await Promise.all(Array.from({ length: size }, (_, index) => begin(index)))
  const read = (job: string) => store.read(job, { signal: AbortSignal.timeout(10_000) })
  // The first leader of each job records where it starts, which takes a while on a busy machine.
  await vi.waitUntil(async () => (await Promise.all(jobs.map(read))).every((record) => record?.checkpoint), {
    timeout: 60_000,
    interval: 100,
  })
  const firstMs = (Math.floor(Date.now() / intervalMs) + 1) * intervalMs
  const lastMs = firstMs + (Math.ceil(times / jobs.length) - 1) * intervalMs
  const slots = () => {
    const all: number[] = []
    // The newest slots may still be running.
    const untilMs = Math.min(lastMs, Date.now() - 2 * intervalMs)
    for (let ms = firstMs; ms <= untilMs; ms += intervalMs) all.push(ms)
    return all
  }
  const look = async () => {
    for (const job of jobs) {
      const record = await read(job)
      for (const run of (record && jobStatus(record)?.runs) ?? []) noteRun(noted, job, run)
    }
    return checkRuns({ lines: linesIn(folder), jobs, slots: slots(), noted })
  }
  let [kills, pauses] = [0, 0]
  let verdict = await look()
  await delay(Math.max(0, firstMs - Date.now()))
  while (Date.now() < lastMs + 2 * intervalMs && !isEnough(verdict)) {
    // Faults around the moment when the jobs are due reveal the most.
    const nextMs = (Math.floor(Date.now() / intervalMs) + 1) * intervalMs
    await delay(Math.max(0, nextMs + random.between(-300, onlyPauses ? -100 : 500) - Date.now()))
    const index = Math.floor(random.next() * size)
    const victim = members[index]
    if (!victim) continue
    if (!onlyPauses && random.chance(0.5)) {
      kills += 1
      const exited = once(victim, 'exit')
      victim.kill('SIGKILL')
      await exited
      members[index] = await begin(index)
    } else {
      pauses += 1
      victim.kill('SIGSTOP')
      await delay(random.between(onlyPauses ? leaseDurationMs : 200, 1.4 * leaseDurationMs))
      victim.kill('SIGCONT')
    }
    verdict = await look()
  }
  await Promise.all(
    members.map(async (child) => {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    }),
  )
  const last = await look()
  await store.close?.()
  return { ...last, kills, pauses }
}

function linesIn(folder: string): RunLine[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder).flatMap((name) =>
    readFileSync(join(folder, name), 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as RunLine),
  )
}
