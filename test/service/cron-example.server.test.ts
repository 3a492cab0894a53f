import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { root } from '../documents.ts'
import { serve } from './serve.ts'

const script = join(root, 'examples/cron-once-per-fleet/once-per-fleet')

interface Job {
  readonly url: string
  readonly node: string
  readonly group?: string
  readonly period?: number
  readonly ttl?: number
}

/** Long enough that no test crosses the end of a period. */
const age = 10_000_000_000
const argsOf = ({ group = 'report', period = age }: Job) => [group, String(period)]
const envOf = ({ url, node, ttl = 30 }: Job) => ({
  ...process.env,
  TENURE_URL: url,
  TENURE_NODE: node,
  TENURE_TTL: String(ttl),
})

async function run(job: Job, ...command: string[]): Promise<{ code: number; stdout: string }> {
  try {
    const done = await promisify(execFile)(script, [...argsOf(job), ...command], { env: envOf(job) })
    return { code: 0, stdout: done.stdout }
  } catch (error) {
    const { code, stdout } = error as { code: number; stdout: string }
    return { code, stdout }
  }
}

async function service() {
  const serving = await serve()
  onTestFinished(() => serving.stop())
  return serving
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-cron-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

test('cron-once-per-fleet: one of five machines runs the job, and a late machine does not run it again', async () => {
  const { url } = await service()
  const log = join(newFolder(), 'log')
  const work = ['sh', '-c', `echo "term $TENURE_TERM" >> ${log}`]
  const nodes = ['a', 'b', 'c', 'd', 'e']
  const done = await Promise.all(
    nodes.map((node) => run({ url, node }, ...work.with(2, `echo "term $TENURE_TERM" >> ${log}; sleep 0.5`))),
  )
  expect(done.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0])
  await run({ url, node: 'late' }, ...work)
  expect(readFileSync(log, 'utf8')).toBe('term 1\n')

  // The next period is another run.
  await run({ url, node: 'late', period: age / 10 }, ...work)
  expect(readFileSync(log, 'utf8')).toBe('term 1\nterm 3\n')
})

test('cron-once-per-fleet: the exit code is that of the job, and the lease is released', async () => {
  const { url } = await service()
  expect(await run({ url, node: 'a' }, 'sh', '-c', 'exit 7')).toMatchObject({ code: 7 })
  const answer = await fetch(`${url}/v1/groups/report/leader`)
  expect(await answer.json()).toMatchObject({ leader: null, previous_leader: { node_id: 'a', term: 1 } })
})

test('cron-once-per-fleet: the job does not run without the service', async () => {
  const ran = join(newFolder(), 'ran')
  const { code } = await run({ url: 'http://127.0.0.1:9', node: 'a' }, 'touch', ran)
  expect(code).toBe(69)
  expect(existsSync(ran)).toBe(false)
})

test('cron-once-per-fleet: a job is ended before its lease can expire when the service is gone', async () => {
  const ttl = 10
  const serving = await service()
  const alive = join(newFolder(), 'alive')
  const job = { url: serving.url, node: 'a', ttl }
  // A child of the job that would survive if only the job were ended. If it is killed while writing, it leaves a
  // complete file.
  const work = `trap '' TERM; (while :; do date +%s%N > ${alive}.new; mv ${alive}.new ${alive}; sleep 0.05; done) & wait`
  const startedMs = Date.now()
  const child = spawn(script, [...argsOf(job), 'sh', '-c', work], { env: envOf(job), stdio: 'inherit' })
  const exited = once(child, 'exit')
  await vi.waitUntil(() => existsSync(alive), { timeout: 10_000 })
  await serving.kill('SIGKILL')
  const [code] = await exited
  expect(code).toBe(75)
  const lastMs = Number(readFileSync(alive, 'utf8')) / 1e6
  // The last renewal was sent after the start, so the lease ends later than this.
  expect(lastMs - startedMs).toBeLessThan(ttl * 1_000)
  expect(lastMs - startedMs).toBeGreaterThan((ttl / 2) * 1_000 - 1_000)
})
