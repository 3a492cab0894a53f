import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A loopback port that was free a moment ago, and so was the one that lies `apart` above it. Both lie below those that
 * the kernel gives to outgoing connections, so that none of them takes it while the server is down.
 */
export async function freePort(apart = 0): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_768 - apart)
    if ((await isFree(port)) && (apart === 0 || (await isFree(port + apart)))) return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  const free = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => resolve(true))
  })
  if (!free) return false
  server.close()
  await once(server, 'close')
  return true
}
