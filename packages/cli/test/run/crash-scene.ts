import { expect, onTestFinished, vi } from 'vitest'
import { openStore } from 'tenure/stores'
import { program } from '../tenure.ts'
import { runs, scene, type Scene, type Wrapper } from './scene.ts'

/** A takeover that takes less than this cannot be due to the expiry of a 60 s lease, even on a busy machine. */
export const soonMs = 20_000

export interface TwoRuns {
  readonly on: Scene
  readonly url: string
  readonly election: string
  readonly first: Wrapper
  readonly second: Wrapper
  /** The process id of the first command. */
  readonly pid: number
}

let elections = 0

/** Starts two wrappers on a store. The first leads and runs a worker, the second waits. */
export async function two(
  url: string,
  worker: readonly string[] = [],
  args: readonly string[] = ['--ttl', '60s'],
  command = program,
): Promise<TwoRuns> {
  const election = `crashes-${++elections}`
  const on = scene(url, election)
  const first = on.work([...args, '--identity', 'first'], worker, { command })
  const { pid } = await on.wrote('begin', 1)
  const second = on.work(args, [], { command })
  await vi.waitUntil(() => second.output.error.includes('first leads'), { timeout: 20_000 })
  return { on, url, election, first, second, pid }
}

/** Waits until the second command works, so that an overlap would show. */
export async function ranSecond(on: Scene): Promise<void> {
  await vi.waitUntil(() => on.lines().some(({ term }) => term === 2), { timeout: 40_000, interval: 10 })
}

/** Waits for the end of a process that this one did not start. */
export async function ended(pid: number): Promise<void> {
  await vi.waitUntil(() => !runs(pid), { timeout: 30_000, interval: 20 })
}

/** Whether the lease of an election is released. */
export async function released(url: string, election: string): Promise<boolean> {
  const store = await openStore(url)
  onTestFinished(() => store.close?.())
  const record = await store.read(election, { signal: AbortSignal.timeout(10_000), timeoutMs: 10_000 })
  expect(record).toBeDefined()
  return record?.released ?? false
}
