import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createSocket } from 'node:dgram'
import { connect } from 'node:net'

/**
 * Returns a loopback port that is currently free, as is the port `apart` above it. Both are below the kernel's range
 * for outgoing connections, so no connection takes them while the server is down. No other call returns them while this
 * process runs.
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
 * A server starts to listen some time after it got its port, much later on a busy machine. Other tests, in this process
 * and in others, must not get the same port in the meantime. Therefore the UDP port with the same number, which is
 * otherwise unused, is bound as a reservation.
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
 * Whether nobody listens on the port. It does not try to listen itself, because a process that another thread forks at
 * that moment has a copy of the socket until it starts its program, and the server would find its port in use.
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
