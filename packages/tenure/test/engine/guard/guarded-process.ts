/** Processes with a guard, for the suites on real servers. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, vi } from 'vitest'
import { Elector, type LeaseRecord, type LeaseStore } from '../../../src/index.ts'
import { openStore } from '../../../src/stores/index.ts'

export const leaseDurationMs = 15_000
/** A takeover that takes less than this cannot be due to an expiry. */
export const soonMs = 5_000

/** The options of a guarded process. */
export interface LeaderOptions {
  readonly elections: readonly string[]
  readonly identity?: string
  readonly leaseDurationMs?: number
  /** The URL by which the guard opens the store, if it differs. */
  readonly storeUrl?: string
  /** Whether the process connects to its store and campaigns only after it gets the message `start`. */
  readonly waits?: boolean
  /** Whether the process takes a seat. */
  readonly present?: boolean
  /** Environment variables in addition to those of this process. */
  readonly env?: Record<string, string>
}

export interface Leader {
  readonly child: ChildProcess
  tell(action: string, answer?: string): Promise<Record<string, unknown>>
}

let elections = 0
export const newElection = () => `guarded-${++elections}`

/** Starts a process, and waits until it leads, or until it is ready to campaign. */
export async function startLeader(url: string, { env, ...more }: LeaderOptions): Promise<Leader> {
  const options = { url, leaseDurationMs, ...more }
  const child = startProgram('leader.mjs', options, env)
  await answered(child, more.waits ? 'ready' : 'leads')
  return {
    child,
    async tell(action, answer = 'done') {
      const answering = answered(child, answer)
      child.send(action)
      return answering
    },
  }
}

/** Starts a program of this folder, which ends with the test. */
export function startProgram(name: string, options: object, env: Record<string, string> = {}): ChildProcess {
  const child = fork(join(import.meta.dirname, name), [JSON.stringify(options)], {
    execArgv: ['--max-old-space-size=64'],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    env: { ...process.env, ...env },
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

export async function answered(child: ChildProcess, type: string): Promise<Record<string, unknown>> {
  for (;;) {
    const [message] = (await once(child, 'message', { signal: AbortSignal.timeout(30_000) })) as [{ type: string }]
    if (message.type === type) return message
  }
}

export async function endProcess(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

export async function openedStore(url: string): Promise<LeaseStore> {
  const store = await openStore(url)
  onTestFinished(() => store.close?.())
  return store
}

/** Starts a standby in this process, and waits until it has seen the leader. */
export async function startStandby(
  store: string | LeaseStore,
  election: string,
  more: { leaseDurationMs?: number } = {},
): Promise<Elector> {
  const opened = typeof store === 'string' ? await openedStore(store) : store
  const elector = new Elector({ store: opened, election, leaseDurationMs, log: false, ...more })
  onTestFinished(() => elector.stop())
  elector.start()
  await vi.waitFor(() => expect(elector.leader()?.released).toBe(false), { timeout: 10_000 })
  return elector
}

/** Reads a record without an elector. */
export function readRecord(store: LeaseStore, election: string): Promise<LeaseRecord | undefined> {
  return store.read(election, { signal: AbortSignal.timeout(10_000), timeoutMs: 10_000 })
}

/** Waits until the lease of an election has been released. Expiry does not count as a release. */
export async function expectReleased(store: LeaseStore, election: string): Promise<LeaseRecord | undefined> {
  await vi.waitFor(async () => expect(await readRecord(store, election)).toMatchObject({ released: true }), {
    timeout: 10_000,
  })
  return readRecord(store, election)
}

/** The guard of a process: the child that runs the guard program. */
export function guardsOf({ pid = 0 }: ChildProcess): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number),
  )
  return children.filter((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('guard'))
}
