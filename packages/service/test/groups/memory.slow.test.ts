/** Tests that everything that the default limits allow fits into a small heap. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { end } from '../../../../test/servers/process.ts'
import { open, request } from '../attacks.ts'
import { newDirectory, post } from '../service-process.ts'

const groups = 5_000
const node = 'node-1'
/** This is longer than the whole test takes on a busy machine. */
const ttlMs = 900_000
/** A few bytes of JSON that become many objects, about 90 KB once parsed. */
const metadata = { a: Array.from({ length: 1_360 }, () => ({})) }
const idOf = (index: number) => `group-${String(index).padStart(4, '0')}`

/** Starts the service with a heap of 256 MB. */
async function serve(directory: string) {
  const script = join(import.meta.dirname, '../serve.mjs')
  const args = ['--max-old-space-size=256', script, directory, '0']
  const env = { ...process.env, MAX_TTL_MS: String(ttlMs) }
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env })
  onTestFinished(() => end(child, 'SIGKILL'))
  const exited = once(child, 'exit')
  const said = (await Promise.race([once(child.stdout, 'data'), exited])) as unknown[]
  return { url: String(said[0]).trim(), child, exited }
}

/** Runs 48 calls at a time. */
async function forEach(count: number, run: (index: number) => Promise<void>): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < count) await run(next++)
  }
  await Promise.all(Array.from({ length: 48 }, lane))
}

async function get(url: string): Promise<Record<string, unknown>> {
  const answer = await fetch(url)
  expect(answer.status).toBe(200)
  return (await answer.json()) as Record<string, unknown>
}

interface Listed {
  readonly group_id: string
  readonly leader: { readonly metadata: unknown } | null
}

/** All groups, page by page. */
async function list(url: string): Promise<Listed[]> {
  const all: Listed[] = []
  for (let after: string | null = ''; after !== null;) {
    const page = await get(`${url}/v1/groups?limit=999${after === '' ? '' : `&after=${after}`}`)
    all.push(...(page['groups'] as Listed[]))
    after = page['next'] as string | null
  }
  return all
}

test('5,000 groups with the worst metadata fit into 256 MB, even while they are read, changed, and reloaded', async () => {
  const directory = newDirectory()
  const first = await serve(directory)
  const lead = async (url: string, index: number) => {
    const answer = await post(`${url}/v1/groups/${idOf(index)}/campaign`, {
      node_id: node,
      lease_ttl_ms: ttlMs,
      metadata,
      instance_start_uuid: 'one',
    })
    expect(answer).toMatchObject({ is_leader: true })
  }
  await forEach(groups, (index) => lead(first.url, index))
  // Heartbeats of members, changes that the feed keeps, and pages that nobody reads.
  await forEach(1_000, async (index) => {
    const url = `${first.url}/v1/groups/${idOf(index)}`
    expect(await post(`${url}/heartbeat`, { node_id: 'node-2', metadata })).toMatchObject({ ok: true })
    expect(await post(`${url}/resign`, { node_id: node, term: 1 })).toMatchObject({ ok: true })
  })
  const unread = Array.from({ length: 32 }, () => {
    const socket = open(first.url)
    socket.pause()
    for (let count = 0; count < 100; count++) socket.write(request(first.url, 'GET /v1/groups?limit=999'))
    return socket
  })
  const many = Array.from({ length: 1_000 }, (_, index) => idOf(index + 3_000)).join()
  for (let round = 0; round < 3; round++) await get(`${first.url}/v1/watch?groups=${many}`)
  expect((await list(first.url)).length).toBe(groups)
  for (const socket of unread) socket.destroy()
  first.child.kill('SIGKILL')
  await first.exited

  const second = await serve(directory)
  const listed = await list(second.url)
  expect(listed.map(({ group_id }) => group_id)).toEqual(Array.from({ length: groups }, (_, index) => idOf(index)))
  expect(listed.at(-1)?.leader?.metadata).toEqual(metadata)
  await forEach(1_000, (index) => lead(second.url, index))
  expect(second.child.exitCode).toBe(null)
  second.child.kill('SIGTERM')
  expect(await second.exited).toEqual([0, null])
}, 300_000)
