/** Processes that share shards while they are killed, paused, and stopped. */
import { fork, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join as joinPath } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, vi } from 'vitest'
import { checkOwners, type OwnersCheck, type OwnerSample } from './check-owners.ts'

/** The options of a process. */
export interface MemberOptions {
  readonly url: string
  readonly group: string
  readonly identity: string
  readonly logPath: string
  readonly shards: number
  readonly leaseDurationMs: number
}

interface MemberReport {
  readonly owned: number
  readonly isCoordinator: boolean
}

interface Member {
  readonly child: ChildProcess
  report: MemberReport | undefined
}

const shards = 16
const leaseDurationMs = 3_000
/**
 * The longest time without an owner: the lease of a coordinator, then that of a member, with the reads and the moves
 * between them. Eight other suites may use the same two cores, which costs more leases. A benchmark has the real time.
 */
export const longestFreeMs = 4 * leaseDurationMs + 20_000

/** Runs three processes through a crash, a pause, a clean leave, and a crash of the coordinator. */
export async function runShardFleet(url: string): Promise<OwnersCheck> {
  const folder = mkdtempSync(joinPath(tmpdir(), 'tenure-shards-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  const group = `shards-${randomUUID()}`
  const members = new Set<Member>()
  let lives = 0
  const join = () => {
    const identity = `member-${(lives += 1)}`
    const options: MemberOptions = {
      url,
      group,
      identity,
      logPath: joinPath(folder, identity),
      shards,
      leaseDurationMs,
    }
    const child = fork(joinPath(import.meta.dirname, 'member.mjs'), [JSON.stringify(options)])
    onTestFinished(() => void child.kill('SIGKILL'))
    const member: Member = { child, report: undefined }
    child.on('message', (report: MemberReport) => (member.report = report))
    members.add(member)
  }
  const settle = (what: string) =>
    vi
      .waitUntil(
        () => {
          const loads = [...members].map(({ report }) => report?.owned ?? 0)
          const sum = loads.reduce((total, load) => total + load, 0)
          return sum === shards && Math.max(...loads) - Math.min(...loads) <= 1
        },
        { timeout: 60_000, interval: 25 },
      )
      .catch(() => {
        throw new Error(
          `the loads are not fair after ${what}: ${JSON.stringify([...members].map((one) => one.report))}`,
        )
      })
  const end = async (member: Member | undefined, signal: 'SIGKILL' | 'SIGTERM') => {
    if (!member) throw new Error('there is no such process')
    const exited = once(member.child, 'exit')
    member.child.kill(signal)
    const [code] = await exited
    members.delete(member)
    if (signal === 'SIGTERM') expect(code).toBe(0)
  }
  const find = (isCoordinator: boolean) => [...members].find(({ report }) => report?.isCoordinator === isCoordinator)

  for (let count = 0; count < 3; count += 1) join()
  await settle('the start')
  await end(find(false), 'SIGKILL')
  join()
  await settle('a crash')
  const paused = find(false)
  paused?.child.kill('SIGSTOP')
  await delay(1.5 * leaseDurationMs)
  paused?.child.kill('SIGCONT')
  await settle('a pause')
  await end(find(false), 'SIGTERM')
  await settle('a clean leave')
  await end(find(true), 'SIGKILL')
  await settle('a crash of the coordinator')
  for (const member of members) await end(member, 'SIGTERM')
  return checkOwners(logsIn(folder))
}

function logsIn(folder: string): Map<string, OwnerSample[]> {
  return new Map(
    readdirSync(folder).map((name) => {
      const lines = readFileSync(joinPath(folder, name), 'utf8').split('\n').slice(0, -1)
      return [name, lines.map((line) => JSON.parse(line) as OwnerSample)]
    }),
  )
}
