import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent } from 'node:https'
import { connect, createServer, type AddressInfo } from 'node:net'
import { onTestFinished, vi } from 'vitest'
import type { Connection } from '../../../src/clients/kubernetes/connection.ts'
import { chunkedHead, chunkOf, connectionTo, serve, type Exchange } from './tls-server.ts'

/** A step in which a call hangs. */
export interface Hanging {
  readonly connection: Connection
  /** Resolves when a call has reached the step. */
  reached(): Promise<unknown>
  /** How many connections the server still has open. */
  open?(): number
}

/** Every step in which a call can hang, from first to last. */
export const hangingSteps: Readonly<Record<string, () => Promise<Hanging>>> = {
  'credentials that never come': async () => ({
    connection: { server: 'https://127.0.0.1:1', credentials: () => new Promise(() => undefined) },
    reached: () => Promise.resolve(),
  }),
  'a DNS lookup that never ends': async () => {
    const { reached, resolve } = deferred()
    const agent = new Agent({ lookup: () => resolve() })
    return { connection: { server: 'https://api.example.test', credentials: () => ({ tls: {}, agent }) }, reached }
  },
  'a proxy that never connects': async () => {
    const { reached, resolve } = deferred()
    // Proxy agents work like this: they return the connection once it exists.
    const agent = Object.assign(new Agent(), { createConnection: () => resolve() })
    return { connection: { server: 'https://127.0.0.1:1', credentials: () => ({ tls: {}, agent }) }, reached }
  },
  'a connection that is never established': async () => ({
    connection: connectionTo(`https://127.0.0.1:${await portThatDropsConnections()}`),
    reached: () =>
      vi.waitUntil(() => process.getActiveResourcesInfo().includes('ConnectWrap'), {
        timeout: 5_000,
        interval: 5,
      }),
  }),
  'a handshake without an answer': async () => {
    const { reached, resolve } = deferred()
    const server = createServer((socket) => {
      socket.on('data', resolve)
      socket.on('error', () => undefined)
      onTestFinished(() => void socket.destroy())
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    return { connection: connectionTo(`https://127.0.0.1:${(server.address() as AddressInfo).port}`), reached }
  },
  'an answer that never begins': () => answered(() => undefined),
  'a head that trickles': () =>
    answered(({ socket }) => trickle((count) => socket.write(count ? 'x' : 'HTTP/1.1 200 OK\r\nx: '))),
  'informational responses without end': () =>
    answered(({ socket }) => trickle(() => socket.write('HTTP/1.1 100 Continue\r\n\r\n'))),
  'a body that trickles': () =>
    answered(({ socket }) => trickle((count) => socket.write(count ? chunkOf(' ') : chunkedHead))),
  'a body without its last byte': () =>
    answered(({ socket }) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}')),
}

async function answered(answer: (exchange: Exchange) => void): Promise<Hanging> {
  const { reached, resolve } = deferred()
  const server = await serve((exchange) => {
    answer(exchange)
    resolve()
  })
  return { connection: server.connection, reached, open: () => server.sockets.size }
}

function deferred() {
  let resolve = (): void => undefined
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { reached: () => promise, resolve: () => resolve() }
}

function trickle(step: (count: number) => void): void {
  let count = 0
  const timer = setInterval(() => step(count++), 10)
  onTestFinished(() => clearInterval(timer))
}

/** Starts a process that accepts no connections and has a full backlog, so that the kernel drops new ones. */
async function portThatDropsConnections(): Promise<number> {
  const program = `require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () { console.log(this.address().port) })`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(line)
  child.kill('SIGSTOP')
  for (let queued = 0; queued < 2; queued++) {
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    await once(socket, 'connect')
  }
  return port
}
