import { once } from 'node:events'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { fileStore } from '../../../src/stores/file/index.ts'
import { call, claim } from '../../promise-outcome.ts'

async function scene() {
  const directory = await mkdtemp(join(tmpdir(), 'tenure-life-'))
  const path = join(directory, 'served.sock')
  const connections: Socket[] = []
  const server = createServer((connection) => {
    connections.push(connection)
    connection.on('error', () => {})
    connection.resume()
  })
  server.listen({ path, exclusive: true })
  await once(server, 'listening')
  const holder = fileStore({ directory, signOfLife: () => ({ path, close: () => undefined }) })
  const standby = fileStore({ directory })
  const ended = new AbortController()
  onTestFinished(async () => {
    ended.abort()
    for (const connection of connections) connection.destroy()
    server.close()
    await Promise.all([holder.close?.(), standby.close?.()])
    await rm(directory, { recursive: true, force: true })
  })
  const won = await holder.acquire(claim(), call)
  expect(won.ok).toBe(true)
  const watch = standby.watch?.(claim().election, { signal: ended.signal })[Symbol.asyncIterator]()
  if (!watch) throw new Error('The file store has no watch.')
  expect((await watch.next()).value).toMatchObject({ released: false })
  if (connections.length === 0) await once(server, 'connection')
  return { server, path, connections, watch }
}

/** Closes a listening socket like the kernel does for a dead process, which leaves the socket's file. */
async function closeLikeDeath(server: Server, path: string): Promise<void> {
  await rename(path, `${path}.kept`)
  server.close()
  await rename(`${path}.kept`, path)
}

test('a holder counts as dead when its connections close before its listening socket', async () => {
  const { server, path, connections, watch } = await scene()
  const next = watch.next()
  const again = once(server, 'connection')
  connections[0]?.destroy()
  await again
  await closeLikeDeath(server, path)
  connections[1]?.destroy()
  expect((await next).value).toMatchObject({ released: true })
})

test('a holder that closes every connection is probed with growing pauses and does not count as dead', async () => {
  const { server, connections, watch } = await scene()
  let shown = 0
  void watch.next().then(() => (shown += 1))
  server.on('connection', (connection: Socket) => connection.destroy())
  connections[0]?.destroy()
  const untilMs = performance.now() + 1_500
  let asked = 0
  server.on('connection', () => (asked += 1))
  while (performance.now() < untilMs) await new Promise((resolve) => setTimeout(resolve, 50))
  // The probes are 0, 2, 4, ... 512 ms apart, then one second.
  expect(asked).toBeGreaterThanOrEqual(5)
  expect(asked).toBeLessThanOrEqual(14)
  expect(shown).toBe(0)
})
