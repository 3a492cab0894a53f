import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { buildMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import { startProxy } from '../../../../test/servers/proxy.ts'
import { overlaps, scene, signal, stopWithoutLock, type Scene } from './scene.ts'
import { slowStartChecks, startChecks } from './start-checks.ts'
import { program, serve, temporaryFolder } from '../tenure.ts'

const lease = ['--ttl', '3s']

/**
 * Each scenario runs two wrappers and injects one fault. The first wrapper leads. Returns the scene with the lines that
 * their commands wrote.
 */
const scenarios = {
  async 'tenure is stopped for longer than its lease'(command: string) {
    const { on, first } = await two(command, { worker: ['--stubborn'] })
    await stopWithoutLock(on, first)
    await secondWorks(on)
    return on
  },
  async 'the supervisor is stopped and tenure is cut off from the store'(command: string) {
    const served = await serve(temporaryFolder())
    const proxy = await startProxy(Number(new URL(served.url).port))
    onTestFinished(() => proxy.stop())
    const through = ['--store', `http://127.0.0.1:${proxy.port}`]
    const { on, first } = await two(command, { worker: ['--stubborn'], store: served.url, through })
    signal(first.supervisor(), 'SIGSTOP')
    proxy.set('blackhole')
    await secondWorks(on)
    return on
  },
  async 'tenure is killed while a child runs in its own process group'(command: string) {
    const { on, first } = await two(command, { worker: ['--fork', 'group'] })
    await vi.waitUntil(() => new Set(on.lines().map(({ pid }) => pid)).size >= 2, { timeout: 20_000 })
    first.child.kill('SIGKILL')
    await secondWorks(on)
    // Nothing else ends this process.
    for (const { pid, term } of on.lines()) if (term === 1) signal(pid, 'SIGKILL')
    return on
  },
  async 'tenure is stopped while the command drains slowly'(command: string) {
    const { on, first } = await two(command, { worker: ['--slow', '4000'] })
    first.child.kill('SIGTERM')
    await secondWorks(on)
    return on
  },
  async 'tenure is killed while the supervisor is paused'(command: string) {
    const { on, first } = await two(command, {})
    const supervisor = first.supervisor()
    signal(supervisor, 'SIGSTOP')
    first.child.kill('SIGKILL')
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    signal(supervisor, 'SIGCONT')
    await secondWorks(on)
    return on
  },
}

async function two(
  command: string,
  { worker = [], store, through = [] }: { worker?: readonly string[]; store?: string; through?: readonly string[] },
) {
  const on = scene(store)
  const first = on.work([...lease, ...through, '--identity', 'first'], worker, { command })
  await on.wrote('begin', 1)
  const second = on.work(lease, [], { command })
  await vi.waitUntil(() => second.output.error.includes('first leads'), { timeout: 20_000 })
  return { on, first }
}

async function secondWorks(on: Scene): Promise<void> {
  await on.wrote('begin', 2)
  await vi.waitUntil(() => on.lines().filter(({ term }) => term === 2).length > 30, { timeout: 20_000 })
}

interface Mutant extends Mutation {
  readonly caughtWhen: keyof typeof scenarios
}

const mutants: readonly Mutant[] = [
  {
    name: 'the supervisor does not enforce the deadlines',
    file: 'run/supervisor.ts',
    find: "  answer({ type: 'started', run: id, session })",
    replace: "  enforcer.stop()\n  answer({ type: 'started', run: id, session })",
    caughtWhen: 'tenure is stopped for longer than its lease',
  },
  {
    name: 'tenure does not enforce the deadlines',
    file: 'run/command-run.ts',
    find: '    if (this.#order) this.#enforcer.end(this.#order.signal, this.#order.killAt)',
    replace: '    this.#enforcer.stop()',
    caughtWhen: 'the supervisor is stopped and tenure is cut off from the store',
  },
  {
    name: 'tenure ends only the first process group',
    file: 'run/session.ts',
    find: '  if (isIdReused(session)) return { processes: [], isComplete: true }',
    replace: '  if (session) return undefined',
    caughtWhen: 'tenure is killed while a child runs in its own process group',
  },
  {
    name: 'tenure releases the lease before the command has ended',
    file: 'run/runner.ts',
    find: 'leadership.waitUntil(new Promise<void>((resolve) => (settle = resolve)))',
    replace: 'leadership.waitUntil(Promise.resolve(settle))',
    caughtWhen: 'tenure is stopped while the command drains slowly',
  },
  {
    name: 'the liveness socket ends with tenure',
    file: 'run/supervision.ts',
    find: '      await supervisor.hold(sign, server)',
    replace: '      await supervisor.ready',
    caughtWhen: 'tenure is killed while the supervisor is paused',
  },
]

describe.each(Object.entries(scenarios))('when %s', (name, scenario) => {
  test(`no two commands run at the same time when ${name}`, { timeout: 90_000 }, async () => {
    expect(overlaps((await scenario(program)).lines())).toEqual([])
  })

  const own = mutants.filter(({ caughtWhen }) => caughtWhen === name)
  test.each(own)(`two commands run at the same time when ${name} and $name`, { timeout: 90_000 }, async (mutant) => {
    const command = join(await buildMutant('cli', [mutant]), 'bin/tenure.js')
    // On a busy machine the second command may start so late that the mutant does no harm.
    let found: ReturnType<typeof overlaps> = []
    for (let tries = 0; tries < 3 && found.length === 0; tries++) found = overlaps((await scenario(command)).lines())
    expect(found).toMatchObject([{ term: 2 }])
  })
})

interface StartMutant extends Mutation {
  readonly caughtBy: string
}

const startMutants: readonly StartMutant[] = [
  {
    name: 'the supervisor starts a command whose deadline has passed',
    file: 'run/supervisor.ts',
    find: "  if (untilMs(deadlines.termAt) <= 0) return refuse('its deadline had already passed')\n",
    replace: '',
    caughtBy: 'the supervisor starts nothing when the deadline of the order has passed on one of the two clocks',
  },
  {
    name: 'tenure does not check for a stop or a loss before it orders a start',
    file: 'run/executor.ts',
    find: '    if (!leadership.isLeader() || this.#stop.signal) return undefined\n',
    replace: '',
    caughtBy: 'tenure run orders no start when it was asked to end after it had decided to run the command',
  },
  {
    name: 'tenure does not check its lease again before it orders a start',
    file: 'run/executor.ts',
    find: '    if (!leadership.isLeader() || this.#stop.signal) return undefined\n',
    replace: '    if (this.#stop.signal) return undefined\n',
    caughtBy: 'tenure run orders no start when it was stalled past its lease after it had decided to run the command',
  },
]

const allStartChecks = { ...startChecks, ...slowStartChecks }

test.each(Object.entries(slowStartChecks))('%s', { timeout: 90_000 }, async (_, check) => {
  await check(join(import.meta.dirname, '../..'))
})

test.each(startMutants)('the start checks fail if $name', { timeout: 90_000 }, async (mutant) => {
  const folder = await buildMutant('cli', [mutant])
  const check = allStartChecks[mutant.caughtBy] ?? expect.unreachable(`There is no check "${mutant.caughtBy}".`)
  expect(await passes(() => check(folder))).toBe(false)
})
