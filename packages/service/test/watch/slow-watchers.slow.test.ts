import { connect, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startService, type RunningService } from '../../src/index.ts'
import { EventStreamParser, type Told } from './event-source.ts'
import { figure, newDirectory, post, serveProcess } from '../service-process.ts'

const metadata = { text: 'x'.repeat(4_000) }
const groups = Array.from({ length: 50 }, (_, index) => `slow-${index}`)
const path = `/v1/watch?groups=${groups.join(',')}`

/** A watcher on a dedicated socket that reads nothing until `read` is called. */
class Reader {
  readonly told: Told[] = []
  readonly parser = new EventStreamParser()
  readonly socket: Socket
  ended = false
  #head = ''

  constructor(base: string, target: string, lastEventId?: string) {
    const { hostname, port } = new URL(base)
    this.socket = connect(Number(port), hostname)
    this.socket.setEncoding('utf8')
    this.socket.on('error', () => {})
    this.socket.once('close', () => (this.ended = true))
    const id = lastEventId === undefined ? '' : `last-event-id: ${lastEventId}\r\n`
    this.socket.write(`GET ${target} HTTP/1.1\r\nhost: ${hostname}\r\naccept: text/event-stream\r\n${id}\r\n`)
    onTestFinished(() => void this.socket.destroy())
  }

  read(): void {
    this.socket.on('data', (chunk: string) => {
      if (this.#head.endsWith('\r\n\r\n')) return void this.told.push(...this.parser.parse(chunk))
      const [head = '', ...rest] = (this.#head + chunk).split('\r\n\r\n')
      this.#head = rest.length === 0 ? head : `${head}\r\n\r\n`
      this.told.push(...this.parser.parse(rest.join('\r\n\r\n')))
    })
  }
}

async function start({ answerTimeoutMs = 2_000 } = {}): Promise<RunningService> {
  const policy = { minTtlMs: 1_000, maxTtlMs: 600_000 }
  const service = await startService({ data: newDirectory(), port: 0, policy, limits: { answerTimeoutMs } })
  onTestFinished(() => service.close())
  return service
}

/** Runs ten terms of each group, which is more than the kernel buffers for a watcher that does not read. */
async function tenTermsOfEach(url: string): Promise<void> {
  await Promise.all(
    groups.map(async (group) => {
      for (let turn = 0; turn < 10; turn++) {
        const claim = { node_id: 'a', lease_ttl_ms: 600_000, metadata }
        const { leader } = await post(`${url}/v1/groups/${group}/campaign`, claim)
        const { term } = leader as { term: number }
        await post(`${url}/v1/groups/${group}/resign`, { node_id: 'a', term })
      }
    }),
  )
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/**
 * The bytes of buffers that are still referenced. The amount of garbage differs by megabytes from run to run, and the
 * collector frees buffers concurrently, so it is repeated until no more are freed.
 */
async function buffersKept(): Promise<number> {
  for (let last = Infinity; ;) {
    collect()
    await setImmediate()
    const kept = process.memoryUsage().arrayBuffers
    if (kept >= last) return kept
    last = kept
  }
}

/** The terms of each group that began, in order. */
function begun(told: readonly Told[]): Map<string, unknown[]> {
  const terms = new Map<string, unknown[]>()
  for (const { data } of told) {
    const group = String(data['group_id'])
    if (data.type === 'LEADER_CHANGED') terms.set(group, [...(terms.get(group) ?? []), data['term']])
  }
  return terms
}
const all = new Map(groups.map((group) => [group, Array.from({ length: 10 }, (_, index) => index + 1)]))

test('a watcher that stops reading for a while receives everything afterwards', { timeout: 90_000 }, async () => {
  // All these terms take seconds on a busy machine.
  const { url } = await start({ answerTimeoutMs: 60_000 })
  const reader = new Reader(url, path)
  await vi.waitFor(async () => expect(await figure(url, 'tenure_watchers')).toBe(1), 10_000)
  await tenTermsOfEach(url)
  reader.read()
  await vi.waitFor(() => expect(begun(reader.told)).toEqual(all), 10_000)
  expect(reader.ended).toBe(false)
  expect(await figure(url, 'tenure_slow_watchers_total')).toBe(0)
})

test(
  'a watcher that stops reading is dropped with TOO_SLOW and resumes exactly at its position',
  { timeout: 90_000 },
  async () => {
    const { url } = await start()
    const reader = new Reader(url, path)
    await vi.waitFor(async () => expect(await figure(url, 'tenure_watchers')).toBe(1), 10_000)
    await tenTermsOfEach(url)
    await vi.waitFor(async () => expect(await figure(url, 'tenure_slow_watchers_total')).toBe(1), 10_000)
    expect(await figure(url, 'tenure_watchers')).toBe(0)
    reader.read()
    await vi.waitFor(() => expect(reader.ended).toBe(true), 10_000)
    expect(reader.told.at(-1)?.data.type).toBe('TOO_SLOW')
    const missed = new Reader(url, path, reader.parser.lastEventId)
    missed.read()
    await vi.waitFor(() => expect(begun([...reader.told, ...missed.told])).toEqual(all), 10_000)
    expect(missed.told.length).toBeGreaterThan(0)
  },
)

test(
  'a watcher that never reads the snapshot is dropped, and little is buffered for it',
  { timeout: 90_000 },
  async () => {
    const { url } = await start({ answerTimeoutMs: 10_000 })
    const many = Array.from({ length: 500 }, (_, index) => `m${index}`)
    // Each of these characters takes two bytes as JSON.
    const checkpoint = '"'.repeat(4_096)
    await Promise.all(
      many.map(async (group) => {
        const claim = { node_id: 'a', lease_ttl_ms: 600_000, metadata }
        await post(`${url}/v1/groups/${group}/campaign`, claim)
        await post(`${url}/v1/groups/${group}/renew`, { node_id: 'a', term: 1, extend_by_ms: 600_000, checkpoint })
      }),
    )
    const before = await buffersKept()
    // Each watcher's snapshot is 6 MB.
    const readers = Array.from({ length: 20 }, () => new Reader(url, `/v1/watch?groups=${many.join(',')}`))
    const [reading, standing] = [readers.slice(0, 10), readers.slice(10)]
    for (const reader of reading) reader.read()
    await vi.waitFor(() => expect(reading.map(({ told }) => told.length)).toEqual(Array(10).fill(500)), 20_000)
    expect((await buffersKept()) - before).toBeLessThan(4 * 2 ** 20)
    await vi.waitFor(async () => expect(await figure(url, 'tenure_slow_watchers_total')).toBe(standing.length), 20_000)
    expect(await figure(url, 'tenure_watchers')).toBe(reading.length)
  },
)

test('the changes that a watcher has missed are serialized only as it reads', { timeout: 90_000 }, async () => {
  const { url } = await start({ answerTimeoutMs: 60_000 })
  const { cursor } = (await (await fetch(`${url}${path}`)).json()) as { cursor: string }
  for (let turn = 0; turn < 4; turn++) await tenTermsOfEach(url)
  const before = await buffersKept()
  // The missed changes are 2 MB, because the metadata of ended terms is gone.
  const reader = new Reader(url, path, cursor)
  await vi.waitFor(async () => expect(await figure(url, 'tenure_watchers')).toBe(1), 10_000)
  expect((await buffersKept()) - before).toBeLessThan(2 ** 20)
  reader.read()
  await vi.waitFor(() => expect(reader.told).toHaveLength(4_000), 30_000)
  expect(new Set(reader.told.map(({ id }) => id)).size).toBe(4_000)
  for (const terms of begun(reader.told).values()) expect(terms).toEqual(Array.from({ length: 40 }, (_, at) => at + 1))
})

test('two hundred watchers that do not read cost the service little memory', { timeout: 90_000 }, async () => {
  const { url } = await serveProcess(newDirectory())
  const group = `${url}/v1/groups/g`
  await post(`${group}/campaign`, { node_id: 'a', lease_ttl_ms: 60_000, metadata })
  const readers = Array.from({ length: 200 }, () => new Reader(url, '/v1/groups/g/watch?renewals=true'))
  await vi.waitFor(async () => expect(await figure(url, 'tenure_watchers')).toBe(200), 10_000)
  const renewals = Array.from({ length: 500 }, () => ({ group_id: 'g', term: 1, extend_by_ms: 60_000 }))
  const before = await figure(url, 'process_resident_memory_bytes')
  let most = 0
  // Without coalescing, each watcher would get 20 MB of events, and all of them 4 GB.
  for (let turn = 0; turn < 10; turn++) {
    await post(`${url}/v1/renew`, { node_id: 'a', renewals })
    most = Math.max(most, await figure(url, 'process_resident_memory_bytes'))
  }
  expect(most - before).toBeLessThan(150 * 2 ** 20)
  for (const { socket } of readers) socket.destroy()
  await vi.waitFor(async () => expect(await figure(url, 'tenure_watchers')).toBe(0), 10_000)
})
