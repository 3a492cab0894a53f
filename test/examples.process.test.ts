import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { newFolder, startExample } from './start-example.ts'

const root = join(import.meta.dirname, '..')
const examples = join(root, 'examples')

/** Runs an example to completion. */
async function runExample(name: string, env: Record<string, string> = {}): Promise<string[]> {
  const example = startExample(name, newFolder(), env)
  await example.ends()
  return example.lines()
}

test('every example has a test here, or in another suite if it needs a cluster, the service, or the command', () => {
  const recipes = readdirSync(join(import.meta.dirname, 'recipes')).filter((file) => file.endsWith('.test.ts'))
  const suites = [
    'examples.process.test.ts',
    'kubernetes/deployment-example.server.test.ts',
    'kubernetes/operator.server.test.ts',
    'service/cron-example.server.test.ts',
    'service/language-examples.server.test.ts',
    'go/examples.server.test.ts',
    'kubernetes/leader-service.server.test.ts',
    'jobs/schedulers.server.test.ts',
    ...recipes.map((file) => join('recipes', file)),
  ]
  const tested = suites.map((file) => readFileSync(join(import.meta.dirname, file), 'utf8')).join('\n')
  const names = readdirSync(examples)
  expect(names).toContain('first-program')
  for (const name of names) expect(tested).toMatch(new RegExp(`test\\(\\s*['"]${name}: |name: '${name}'`))
})

test('every example starts with a comment about what it shows and imports the library by its name', () => {
  const programs = readdirSync(examples).filter((name) => existsSync(join(examples, name, 'main.mjs')))
  expect(programs).toContain('first-program')
  for (const name of programs) {
    const text = readFileSync(join(examples, name, 'main.mjs'), 'utf8')
    expect(text, name).toMatch(/^\/\/ [A-Z].{40,}/)
    expect(text, name).toMatch(/ from 'tenure['/]/)
    expect(text, name).not.toMatch(/ from '\.\.\//)
  }
})

test("first-program: it equals the README's program, has at most ten lines, leads, and has a successor when it is killed", async () => {
  const text = readFileSync(join(examples, 'first-program/main.mjs'), 'utf8')
  const code = text.replace(/^\/\/.*\n/gm, '')
  expect(code.trim().split('\n').length).toBeLessThanOrEqual(10)
  const [, readme] = /```js[^\n]*\n([^]*?)```/.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? []
  expect(code).toBe(readme)
  const folder = newFolder()
  const first = startExample('first-program', folder)
  await first.says(`Process ${first.pid} leads in term 1, for 30 s.`)
  const second = startExample('first-program', folder)
  await second.says(`Process ${second.pid} waits until it leads.`)
  first.kill('SIGKILL')
  await second.says(`Process ${second.pid} leads in term 2, for 30 s.`)
})

test('elector: the work settles before the lease is handed over, and the successor reads the checkpoint', async () => {
  const lines = await runExample('elector')
  expect(lines.filter((line) => line.startsWith('a '))).toEqual([
    'a is elected, term 1',
    expect.stringMatching(/^a explains: Leads "payments" in term 1\. /),
    'a has finished its work',
    'a has lost term 1: released',
    expect.stringMatching(/^a explains: Stays out of "payments" for another \d\.\d s/),
  ])
  expect(lines.filter((line) => line.startsWith('b ')).toSorted()).toEqual([
    'b continues where a stopped: paid up to invoice 17',
    'b has lost term 2: stopped',
    'b is elected, term 2',
  ])
})

test('manager-loop: one of two processes works, and the other one works after it', async () => {
  const folder = newFolder()
  const first = startExample('manager-loop', folder, { POD_NAME: 'pod-a', ROUNDS: '3' })
  await first.says('pod-a processes jobs, round 1')
  const second = startExample('manager-loop', folder, { POD_NAME: 'pod-b', ROUNDS: '2' })
  await first.ends()
  const said = (pod: string, rounds: number[]) => [
    ...rounds.flatMap((round) => [`${pod} processes jobs, round ${round}`, `${pod} is done with round ${round}`]),
    `${pod} stopped`,
  ]
  expect(first.lines()).toEqual(said('pod-a', [1, 2, 3]))
  await second.ends()
  expect(second.lines()).toEqual(said('pod-b', [1, 2]))
})

test('manager-loop: on SIGTERM during a round, the other process works only after that round', async () => {
  const folder = newFolder()
  const first = startExample('manager-loop', folder, { POD_NAME: 'pod-a', ROUNDS: '1000', ROUND_MS: '2000' })
  await first.says('pod-a processes jobs, round 1')
  const second = startExample('manager-loop', folder, { POD_NAME: 'pod-b', ROUNDS: '1' })
  first.kill('SIGTERM')
  await second.says('pod-b processes jobs, round 1')
  // The output of the first process has arrived, but this process may not have read it yet.
  await new Promise((resolve) => setTimeout(resolve, 0))
  await new Promise((resolve) => setImmediate(resolve))
  expect(first.lines()).toContain('pod-a is done with round 1')
  await Promise.all([first.ends(), second.ends()])
})

test('manager-loop: SIGTERM stops it cleanly', async () => {
  const example = startExample('manager-loop', newFolder(), { POD_NAME: 'pod-a', ROUNDS: '1000' })
  await example.says(/round 1$/)
  example.kill('SIGTERM')
  await example.ends()
  expect(example.lines().at(-1)).toBe('pod-a stopped')
})

test('manager-wait: the waiting process takes over when the leader is killed', async () => {
  const folder = newFolder()
  const first = startExample('manager-wait', folder, { POD_NAME: 'pod-a', ROUNDS: '1000' })
  await first.says('pod-a leads in term 1')
  const second = startExample('manager-wait', folder, { POD_NAME: 'pod-b', ROUNDS: '2' })
  await second.says('pod-b waits')
  first.kill('SIGKILL')
  await second.ends()
  expect(second.lines()).toEqual([
    'pod-b waits',
    'pod-b leads in term 2',
    'pod-b works, round 1',
    'pod-b works, round 2',
    'pod-b stopped',
  ])
})

test('manager-wait: SIGTERM ends the wait', async () => {
  const folder = newFolder()
  const leader = startExample('manager-wait', folder, { POD_NAME: 'pod-a', ROUNDS: '1000' })
  await leader.says('pod-a leads in term 1')
  const waiting = startExample('manager-wait', folder, { POD_NAME: 'pod-b' })
  await waiting.says('pod-b waits')
  waiting.kill('SIGTERM')
  await waiting.ends()
  expect(waiting.lines()).toEqual(['pod-b waits', 'pod-b stopped'])
  leader.kill('SIGTERM')
  await leader.ends()
})

test('elections: one of two instances leads a key until it releases it', async () => {
  expect(await runExample('elections')).toEqual([
    'first leads: true',
    'second leads: false',
    'first still leads, for it was renewed: true',
    expect.stringMatching(/^second remarks: .*invoices" is not held/),
    'first was told to stop: true',
    'second leads: true',
    'after close nobody leads: true',
  ])
})

test('leader-elector: its callbacks run in order, and a standby takes over on SIGTERM', async () => {
  const folder = newFolder()
  const first = startExample('leader-elector', folder, { POD_NAME: 'pod-a', RUN_SECONDS: '60' })
  await first.says('pod-a started leading in term 1')
  const second = startExample('leader-elector', folder, { POD_NAME: 'pod-b', RUN_SECONDS: '60' })
  await second.says('pod-b sees that pod-a leads')
  first.kill('SIGTERM')
  await first.ends()
  expect(first.lines()).toEqual([
    'pod-a sees that pod-a leads',
    'pod-a started leading in term 1',
    'pod-a finished its work',
    'pod-a stopped leading',
    'pod-a leads: false',
  ])
  await second.says('pod-b started leading in term 2')
  second.kill('SIGTERM')
  await second.ends()
  expect(second.lines()).toEqual([
    'pod-b sees that pod-a leads',
    'pod-b sees that pod-b leads',
    'pod-b started leading in term 2',
    'pod-b finished its work',
    'pod-b stopped leading',
    'pod-b leads: false',
  ])
})

test('leader-elector: it ends on its own', async () => {
  expect((await runExample('leader-elector', { POD_NAME: 'pod-a', RUN_SECONDS: '0.5' })).at(-1)).toBe(
    'pod-a leads: false',
  )
})

test('fencing: the late write of a former leader is refused', async () => {
  expect(await runExample('fencing')).toEqual([
    'term 1 wrote "draft of a"',
    'term 2 wrote "final of b"',
    expect.stringMatching(/^refused with STALE_TERM: /),
    'the report is "final of b"',
  ])
})

/** Starts another program and collects its output. */
function run(program: string, args: readonly string[], options: { readonly env: NodeJS.ProcessEnv }) {
  const child = spawn(program, args, options)
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  }
  const said = () => text.split('\n').filter((line) => line !== '')
  const ended = once(child, 'close').then(([code]) => ({ code: code as number, said: said() }))
  return { child, said, ended }
}

/** Returns the matching lines of several processes, once there are this many. */
async function linesOfAll(
  all: readonly ReturnType<typeof startExample>[],
  pattern: RegExp,
  count: number,
): Promise<string[]> {
  const lines = () => all.flatMap((example) => example.lines()).filter((line) => pattern.test(line))
  await vi.waitUntil(() => lines().length >= count, { timeout: 40_000, interval: 20 })
  return lines()
}

const endAll = async (all: readonly ReturnType<typeof startExample>[]) => {
  for (const example of all) example.kill('SIGTERM')
  await Promise.all(all.map((example) => example.ends()))
}

/** Checks that no two lines show the same time. */
function expectOnce(lines: readonly string[]): void {
  const times = lines.map((line) => /\d{4}-\S+Z/.exec(line)?.[0])
  expect(times).not.toContain(undefined)
  expect(new Set(times).size, lines.join('\n')).toBe(times.length)
}

test('jobs: one process runs each slot, even after a process was killed, and the migration runs once', async () => {
  const folder = newFolder()
  const [first, ...others] = Array.from({ length: 3 }, () => startExample('jobs', folder))
  if (!first) return
  const all = [first, ...others]
  await linesOfAll(all, /syncs/, 3)
  first.kill('SIGKILL')
  expectOnce(await linesOfAll(all, /syncs/, 8))
  expect(all.flatMap((example) => example.lines()).filter((line) => line === 'migrates')).toHaveLength(1)
  await endAll(others)
})

test('jobs-croner: a run that croner or Tenure schedules in all processes is executed by exactly one of them', async () => {
  const folder = newFolder()
  const all = Array.from({ length: 2 }, () => startExample('jobs-croner', folder))
  // A process skips a run only if another one has run it.
  await linesOfAll(all, /: skipped$/, 2)
  expectOnce(await linesOfAll(all, /reports by tenure/, 2))
  await endAll(all)
})

test('jobs-fastify: one of two servers runs the job and shows its outcome', async () => {
  const folder = newFolder()
  const all = Array.from({ length: 2 }, () => startExample('jobs-fastify', folder))
  expectOnce(await linesOfAll(all, /: syncs/, 3))
  const [listens = ''] = (await linesOfAll(all, /listens at/, 1)) ?? []
  const [, url] = /listens at (\S+)$/.exec(listens) ?? []
  const status = (await (await fetch(`${url}/jobs`)).json()) as { name: string; runs: { result?: string }[] }[]
  expect(status).toMatchObject([{ name: 'sync', schedule: 'every second' }])
  expect(status[0]?.runs.some(({ result }) => result === 'succeeded')).toBe(true)
  await endAll(all)
})

test('jobs-nextjs: the hook starts the job in a Node server, but not in the edge runtime or during a build', async () => {
  const folder = newFolder()
  const hook = new URL('../examples/jobs-nextjs/instrumentation.js', import.meta.url).href
  const server = (env: Record<string, string>) => {
    const code = `await (await import(${JSON.stringify(hook)})).register()`
    const more = { ...env, TENURE_STORE: `file://${folder}/leases` }
    return run(process.execPath, ['--input-type=module', '--eval', code], { env: { ...process.env, ...more } })
  }
  for (const env of [{ NEXT_RUNTIME: 'edge' }, { NEXT_RUNTIME: 'nodejs', NEXT_PHASE: 'phase-production-build' }]) {
    expect(await server(env).ended).toEqual({ code: 0, said: [] })
  }
  const both = [server({ NEXT_RUNTIME: 'nodejs' }), server({ NEXT_RUNTIME: 'nodejs' })]
  await vi.waitUntil(() => both.flatMap(({ said }) => said()).length >= 3, { timeout: 40_000 })
  for (const { child } of both) child.kill('SIGTERM')
  for (const { ended } of both) expect((await ended).code).toBe(0)
  expectOnce(both.flatMap(({ said }) => said()))
})

test('jobs-worker-threads: one thread of two processes runs each slot', async () => {
  const folder = newFolder()
  const all = Array.from({ length: 2 }, () => startExample('jobs-worker-threads', folder))
  expectOnce(await linesOfAll(all, /^thread \d+ syncs/, 5))
})
