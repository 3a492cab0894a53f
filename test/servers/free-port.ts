import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createSocket } from 'node:dgram'
import { connect } from 'node:net'

/**
 * A loopback port that was free a moment ago, and so was the one that lies `apart` above it. Both lie below those that
 * the kernel gives to outgoing connections, so that none of them takes it while the server is down. No other call gets
 * one of them while this process runs.
 */
export async function freePort(apart = 0): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_768 - apart)
    if ((await isMine(port)) && (apart === 0 || (await isMine(port + apart)))) return port
  }
}

async function isMine(port: number): Promise<boolean> {
  return (await reserve(port)) && isFree(port)
}

/**
 * A server listens only some time after it was given its port, on a busy machine much later: other tests, in this process
 * and in others, must not be given the same one meanwhile. So the UDP port of that number is taken, which nobody needs.
 */
async function reserve(port: number): Promise<boolean> {
  const socket = createSocket({ type: 'udp4' })
  try {
    socket.bind({ port, address: '127.0.0.1', exclusive: true })
    await once(socket, 'listening')
    socket.unref()
    return true
  } catch {
    socket.close()
    return false
  }
}

/**
 * Whether nobody listens. Not by listening for a moment: a process that another thread starts just then has a copy of the
 * socket until it begins its program, and whoever is given the port finds it taken.
 */
async function isFree(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const free = await once(socket, 'connect').then(
    () => false,
    () => true,
  )
  socket.destroy()
  return free
}
