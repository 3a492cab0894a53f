import { expect, onTestFinished, vi } from 'vitest'
import { overlaps, runs, scene, signal, stopWithoutLock, type Line, type Scene, type Wrapper } from './scene.ts'

const group = 'imports'
/** Processes that a test starts share the machine with everything else that runs there. */
const patience = { timeout: 40_000, interval: 20 }

/** Wrappers that share the shards of one group. */
export interface ShardScene {
  readonly on: Scene
  readonly count: number
  join(identity: string, options?: { args?: readonly string[]; worker?: readonly string[]; command?: string }): Wrapper
  /** The newest command of each shard that has one. */
  newest(): Map<string, Line>
  /** Waits until the newest command of each shard belongs to one of these, with loads that differ by at most one. */
  settled(...identities: string[]): Promise<void>
}

export function shardScene(count: number): ShardScene {
  const on = scene()
  const newest = () => {
    const found = new Map<string, Line>()
    for (const line of on.lines()) {
      const { shard = '', what, term } = line
      if (what === 'begin' && term > (found.get(shard)?.term ?? 0)) found.set(shard, line)
    }
    return found
  }
  const loadsOf = (identities: readonly string[]) =>
    identities.map((name) => [...newest().values()].filter(({ identity }) => identity === name).length)
  return {
    on,
    count,
    newest,
    join: (identity, { args = [], worker = [], command } = {}) => {
      const wrapper = on.share(
        `${group}:${count}`,
        ['--ttl', '3s', '--identity', identity, ...args],
        worker,
        command === undefined ? {} : { command },
      )
      onTestFinished(() => {
        for (const { pid } of on.lines()) if (runs(pid)) signal(pid, 'SIGKILL')
      })
      return wrapper
    },
    settled: async (...identities) => {
      const isFair = () => {
        const loads = loadsOf(identities)
        const sum = loads.reduce((total, load) => total + load, 0)
        return sum === count && Math.max(...loads) - Math.min(...loads) <= 1
      }
      await vi.waitUntil(isFair, patience)
    },
  }
}

/** Returns the shards whose next command began before the previous one had ended. */
export function shardOverlaps(lines: readonly Line[]): { shard: string; byMs: number }[] {
  const shards = new Set(lines.flatMap(({ shard }) => (shard === undefined ? [] : [shard])))
  return [...shards].flatMap((shard) =>
    overlaps(lines.filter((line) => line.shard === shard)).map(({ byMs }) => ({ shard, byMs })),
  )
}

/** Expects that no two commands of one shard ever ran at the same time. */
export function expectNoShardOverlap(lines: readonly Line[]): void {
  expect(shardOverlaps(lines)).toEqual([])
}

/** Each scenario ends with other wrappers in the place of one that stopped. Returns the lines of all commands. */
export const shardScenarios = {
  async 'a wrapper is killed while its commands have children in their own process groups'(command?: string) {
    const fleet = shardScene(4)
    const options = command === undefined ? {} : { command }
    const first = fleet.join('first', { ...options, worker: ['--fork', 'group'] })
    await fleet.settled('first')
    const children = () => new Set(fleet.on.lines().map(({ pid }) => pid)).size
    await vi.waitUntil(() => children() === 8, patience)
    fleet.join('second', options)
    await vi.waitUntil(() => [...fleet.newest().values()].some(({ identity }) => identity === 'second'), patience)
    first.child.kill('SIGKILL')
    await fleet.settled('second')
    await worked(fleet)
    return fleet.on.lines()
  },
  'a wrapper hands over shards whose commands leave a process behind that ignores SIGTERM': (command?: string) =>
    handOver(['--fork', 'same'], command),
  async 'a shard moves to a wrapper that joins, and the command ignores SIGTERM'(command?: string) {
    const fleet = shardScene(2)
    const options = {
      args: ['--drain-timeout', '3s'],
      worker: ['--stubborn'],
      ...(command !== undefined && { command }),
    }
    fleet.join('first', options)
    await fleet.settled('first')
    fleet.join('second', options)
    await fleet.settled('first', 'second')
    await worked(fleet)
    return fleet.on.lines()
  },
  async 'a wrapper is stopped for longer than its lease'(command?: string) {
    const fleet = shardScene(4)
    const options = command === undefined ? {} : { command }
    const first = fleet.join('first', { ...options, worker: ['--stubborn'] })
    const second = fleet.join('second', { ...options, worker: ['--stubborn'] })
    await fleet.settled('first', 'second')
    const isCoordinator = first.output.error.includes('coordinates')
    const [stopped, name, other] = isCoordinator ? [second, 'second', 'first'] : [first, 'first', 'second']
    expect([...fleet.newest().values()].some(({ identity }) => identity === name)).toBe(true)
    onTestFinished(() => void stopped.child.kill('SIGCONT'))
    await stopWithoutLock(fleet.on, stopped)
    await fleet.settled(other)
    await worked(fleet)
    stopped.child.kill('SIGCONT')
    return fleet.on.lines()
  },
} as const

async function handOver(worker: readonly string[], command: string | undefined): Promise<readonly Line[]> {
  const fleet = shardScene(2)
  const options = command === undefined ? {} : { command }
  const first = fleet.join('first', { ...options, args: ['--drain-timeout', '3s'], worker })
  const second = fleet.join('second', options)
  await fleet.settled('first', 'second')
  const pids = () => new Set(fleet.on.lines().flatMap(({ identity, pid }) => (identity === 'first' ? [pid] : [])))
  await vi.waitUntil(() => pids().size >= (worker.includes('--fork') ? 2 : 1), patience)
  first.child.kill('SIGTERM')
  await fleet.settled('second')
  await worked(fleet)
  expect(await first.ended).toBe(0)
  second.child.kill('SIGTERM')
  expect(await second.ended).toBe(0)
  return fleet.on.lines()
}

/** Waits until the newest command of each shard has worked for a while. */
async function worked({ on, newest }: ShardScene): Promise<void> {
  const since = new Map([...newest()].map(([shard, { term }]) => [shard, term]))
  const isDone = () => {
    const lines = on.lines()
    return [...since].every(
      ([shard, term]) => lines.filter((one) => one.shard === shard && one.term >= term).length > 20,
    )
  }
  await vi.waitUntil(isDone, patience)
}
