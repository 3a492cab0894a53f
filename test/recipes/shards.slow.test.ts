import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createShards } from 'tenure/shards'
import { fileStore } from 'tenure/stores/file'
import { expect, onTestFinished, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import { freePort } from '../servers/free-port.ts'
import { newFolder, startExample } from '../start-example.ts'
import { slowTest, waitOptions } from './recipe-folder.ts'

/** Starts three processes of an example that share a folder, and waits until each of them listens. */
async function startThree(name: string) {
  const folder = newFolder()
  const started = await Promise.all(
    [0, 1, 2].map(async () => {
      const port = await freePort()
      return { port, ...startExample(name, folder, { PORT: String(port) }) }
    }),
  )
  await Promise.all(started.map(({ port, says }) => says(`node-${port} listens on port ${port}`)))
  return started
}

interface Answer {
  readonly owner?: string
  readonly token?: number
  readonly visits?: number
}

async function visit(port: number, room: string): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${port}/rooms/${room}`)
  return (await response.json()) as Answer
}

/** Asks for a room until one of these processes owns it. */
function ownedBy(port: number, room: string, owners: readonly string[]): Promise<Required<Answer>> {
  return vi.waitUntil(async () => {
    const answer = await visit(port, room)
    return answer.owner !== undefined && owners.includes(answer.owner) && (answer as Required<Answer>)
  }, waitOptions)
}

test(
  'shards-http: every process answers for every room, and a killed owner is replaced by one with a higher token',
  slowTest,
  async () => {
    const processes = await startThree('shards-http')
    const names = processes.map(({ port }) => `node-${port}`)
    const [first, second, third] = processes as [(typeof processes)[0], (typeof processes)[0], (typeof processes)[0]]
    // Balancing ends when each process owns about a third of the rooms, and moves rooms before that.
    const rooms = Array.from({ length: 40 }, (_, number) => `room-${number}`)
    await vi.waitUntil(async () => {
      const answers = await Promise.all(rooms.map((room) => visit(first.port, room)))
      return names.every((name) => answers.filter(({ owner }) => owner === name).length >= 5)
    }, waitOptions)
    const owned = await Promise.all(rooms.map((room) => ownedBy(first.port, room, names)))
    // Each visit is counted by one process, whichever of them was asked.
    const room = rooms[owned.findIndex(({ owner }) => owner === `node-${third.port}`)] ?? expect.unreachable('no room')
    const before = await ownedBy(first.port, room, [`node-${third.port}`])
    const asked = [await visit(second.port, room), await visit(third.port, room), await visit(first.port, room)]
    expect(asked.map(({ owner, visits }) => ({ owner, visits }))).toEqual(
      [1, 2, 3].map((more) => ({ owner: before.owner, visits: before.visits + more })),
    )
    third.kill('SIGKILL')
    const after = await ownedBy(first.port, room, [`node-${first.port}`, `node-${second.port}`])
    expect(after.token).toBeGreaterThan(before.token)
    // A clean end hands all rooms over.
    second.kill('SIGTERM')
    await second.ends()
    const last = await Promise.all(rooms.map((one) => ownedBy(first.port, one, [`node-${first.port}`])))
    expect(last).toHaveLength(rooms.length)
  },
)

test(
  'shards-http: a forwarded request that reaches another process is refused with 409 and the token, and tried again once',
  slowTest,
  async () => {
    // A process of the group whose answers this test decides. To the example, it looks as if its view were stale.
    const answers: number[] = []
    const requests: string[] = []
    const server: Server = createServer((request, response) => {
      requests.push(String(request.headers['x-forwarded']))
      const status = answers.shift() ?? 409
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ token: 7, status }))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => {
      server.close()
    })
    const folder = newFolder()
    const port = await freePort()
    const example = startExample('shards-http', folder, { PORT: String(port) })
    await example.says(`node-${port} listens on port ${port}`)
    const store = fileStore({ directory: join(folder, 'leases') })
    const { port: ownPort } = server.address() as AddressInfo
    const metadata = { address: `http://127.0.0.1:${ownPort}` }
    const own = createShards({ store, group: 'rooms', shards: 64, leaseDurationMs: 3_000, metadata, log: false })
    onTestFinished(() => own.stop())
    await own.start()
    await vi.waitUntil(() => own.status().owned.length === 32, waitOptions)
    const rooms = Array.from({ length: 64 }, (_, number) => `room-${number}`)
    const ask = async (room: string | undefined, headers: Record<string, string> = {}) => {
      const answer = await fetch(`http://127.0.0.1:${port}/rooms/${room}`, { headers })
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
    }
    const mine = () => rooms.find((room) => own.owns(room))
    // On a busy machine, a process may lose its shards for a moment. Each of these is then tried again.
    await vi.waitFor(async () => {
      // The example refuses what it does not own, and does not forward it again.
      const [room, known] = [mine(), own.owns(mine() ?? '')?.token]
      const refused = { status: 409, body: { room, error: 'NOT_OWNER', token: known } }
      expect(await ask(room, { 'x-forwarded': 'true' })).toEqual(refused)
      const theirs = rooms.find((one) => !own.owns(one))
      expect(await ask(theirs, { 'x-forwarded': 'true' })).toMatchObject({ status: 200, body: { room: theirs } })
      expect(requests).toEqual([])
    }, waitOptions)
    const answeredWith = async (...statuses: number[]) => {
      answers.splice(0, answers.length, ...statuses)
      requests.length = 0
      return ask(mine())
    }
    await vi.waitFor(async () => {
      // The owner refuses once, and is asked again.
      expect(await answeredWith(409, 200)).toEqual({ status: 200, body: { token: 7, status: 200 } })
      expect(requests).toEqual(['true', 'true'])
    }, waitOptions)
    await vi.waitFor(async () => {
      // The owner refuses twice, and the client gets the refusal with the token.
      expect(await answeredWith(409, 409, 200)).toEqual({ status: 409, body: { token: 7, status: 409 } })
      expect(requests).toEqual(['true', 'true'])
    }, waitOptions)
  },
)

test(
  'shards-websocket: a connection is sent to the owner of its room, and moves when the owner is stopped or killed',
  slowTest,
  async () => {
    const processes = await startThree('shards-websocket')
    const moves: string[] = []
    const reasons: string[] = []
    const ended = new AbortController()
    let open: WebSocket | undefined
    onTestFinished(() => {
      ended.abort()
      open?.terminate()
    })
    /** A client that connects to any process, and again when its connection ends. */
    const chat = async () => {
      for (let from = 0; !ended.signal.aborted; from++) {
        let address = `ws://127.0.0.1:${processes[from % processes.length]?.port}`
        while (address !== '' && !ended.signal.aborted) {
          const connection = new WebSocket(`${address}/lobby`)
          open = connection
          connection.on('error', () => undefined)
          connection.on('message', (text: Buffer) => moves.push(String(JSON.parse(String(text)).joined)))
          const { code, reason } = await new Promise<{ code: number; reason: string }>((resolve) =>
            connection.on('close', (number, text) => resolve({ code: number, reason: String(text) })),
          )
          reasons.push(String(code))
          address = code === 4000 ? reason : ''
        }
      }
    }
    void chat()
    const ownerAfter = (count: number) =>
      vi.waitUntil(
        () => moves.length > count && processes.find(({ port }) => moves.at(-1) === `node-${port}`),
        waitOptions,
      )
    const owner = await ownerAfter(0)
    let seen = moves.length
    owner.kill('SIGTERM')
    const next = await ownerAfter(seen)
    expect(next).not.toBe(owner)
    expect(reasons).toContain('1012')
    await owner.ends()
    seen = moves.length
    next.kill('SIGKILL')
    const last = await ownerAfter(seen)
    expect([owner, next]).not.toContain(last)
  },
)

test(
  'shards-tenants: each scheduled time of a tenant runs once, even when its process is killed',
  slowTest,
  async () => {
    const folder = newFolder()
    const processes = [0, 1, 2].map(() => startExample('shards-tenants', folder))
    const tenants = ['acme', 'globex', 'initech', 'umbrella']
    const runsOf = (tenant: string) =>
      processes.flatMap(({ lines }) => lines().filter((line) => line.includes(`: ${tenant} at `)))
    const moreRuns = async () => {
      const counts = tenants.map((tenant) => runsOf(tenant).length)
      await vi.waitUntil(
        () => tenants.every((tenant, index) => runsOf(tenant).length >= (counts[index] ?? 0) + 2),
        waitOptions,
      )
    }
    await moreRuns()
    const killed =
      processes.find(({ lines }) => lines().some((line) => line.includes(': owns '))) ?? expect.unreachable()
    killed.kill('SIGKILL')
    await moreRuns()
    const left = processes.filter((one) => one !== killed)
    left[0]?.kill('SIGTERM')
    await left[0]?.ends()
    await moreRuns()
    for (const tenant of tenants) {
      const times = runsOf(tenant).map((line) => line.slice(line.indexOf(' at ')))
      expect(new Set(times).size).toBe(times.length)
    }
  },
)
