import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { memoryStore } from 'tenure'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PageServer } from '../../src/commands/page/page-server.ts'
import { Observations } from '../../src/commands/page/observed-elections.ts'
import { StoreAnswers } from '../../src/commands/page/store-answers.ts'
import { parseListen } from '../../src/shared/arguments/addresses.ts'
import { listen } from '../../src/shared/small-server.ts'
import { temporaryFolder } from '../temporary-folder.ts'

async function small(address: string) {
  const replies = { '/is-leader': () => ({ status: 200, body: { is_leader: true } }) }
  const server = await listen({ what: 'sidecar', listen: parseListen(address), allowedHost: [], replies })
  onTestFinished(() => server.close())
  return server
}

async function page(token: string) {
  const store = memoryStore()
  const observations = new Observations({ store, timeoutMs: 1_000, onError: () => {}, onAnswer: () => {} })
  const answers = new StoreAnswers({
    store,
    list: async () => ({ records: [] }),
    observations,
    timeoutMs: 1_000,
    kind: 'memory',
  })
  const server = await PageServer.listen({ listen: { host: '127.0.0.1', port: 0 }, token, answers })
  onTestFinished(async () => {
    await server.close()
    observations.close()
  })
  return server
}

/** Opens connections on which nothing is sent. */
async function hold(url: string, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(url)
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname).on('error', () => {}))
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()))
  for (const socket of sockets) if (socket.connecting) await once(socket, 'connect').catch(() => {})
  return sockets
}

interface Asked {
  readonly url: string
  readonly token?: string
}

/** Sends a request on a new connection. Resolves to the status, or 0 without an answer. */
async function ask({ url, token }: Asked): Promise<number> {
  const headers = { connection: 'close', ...(token !== undefined && { authorization: `Bearer ${token}` }) }
  return new Promise((resolve) => {
    const sent = request(url, { agent: false, headers }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
    sent.on('error', () => resolve(0))
    sent.end()
  })
}

async function askOften(asked: Asked, count: number): Promise<number[]> {
  const statuses: number[] = []
  for (let index = 0; index < count; index++) statuses.push(await ask(asked))
  return [...new Set(statuses)]
}

test('a sidecar answers every request while another user holds as many connections as it can', async () => {
  const { url } = await small('127.0.0.1:0')
  await hold(url, 1_300)
  expect(await askOften({ url: `${url}/is-leader` }, 40)).toEqual([200])
})

test('a page answers its reader while another user holds as many connections as it can', async () => {
  const token = 'secret'
  const { url } = await page(token)
  const reader = new URL(url)
  const kept = connect(Number(reader.port), reader.hostname)
  onTestFinished(() => void kept.destroy())
  const head = ['GET /v1/identity HTTP/1.1', `host: ${reader.host}`, `authorization: Bearer ${token}`].join('\r\n')
  kept.write(`${head}\r\n\r\n`)
  await once(kept, 'data')
  await hold(url, 400)
  expect(await askOften({ url: `${url}/v1/identity`, token }, 40)).toEqual([200])
  // The reader's own connection was not closed to make room.
  kept.write(`${head}\r\n\r\n`)
  const [answer] = (await once(kept, 'data')) as [Buffer]
  expect(answer.toString()).toContain('200 OK')
})

describe.skipIf(process.platform === 'win32')('a Unix socket', () => {
  test('listening on a Unix socket fails when the path is another kind of file', async () => {
    const path = join(temporaryFolder(), 'jobs.sock')
    writeFileSync(path, 'mine')
    await expect(small(`unix:${path}`)).rejects.toThrow(/the path exists and is not a socket/)
  })

  test('a Unix socket has mode 0600 unless the address sets another mode', () => {
    expect(parseListen('unix:/run/a.sock')).toEqual({ path: '/run/a.sock', mode: 0o600 })
    expect(parseListen('unix:/run/a.sock?mode=0660')).toEqual({ path: '/run/a.sock', mode: 0o660 })
  })

  test.each(['unix:', 'unix:/a?mode=9', 'unix:/a?other=1', `unix:/${'x'.repeat(103)}`])(
    'parseListen rejects %s',
    (text) => {
      expect(() => parseListen(text)).toThrow()
    },
  )
})
