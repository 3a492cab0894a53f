import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import { Socket } from 'node:net'

/** The sockets that a connection attempt has opened. */
const attempts = new AsyncLocalStorage<Set<Socket>>()
let isSubscribed = false

/**
 * Runs a connection attempt of the client, and destroys its sockets if it fails. The client does not close a socket on
 * which the server sent nothing in time, and that socket would keep the process alive.
 */
export async function destroySocketsOnFailure<T>(connect: () => Promise<T>): Promise<T> {
  if (!isSubscribed) subscribe('net.client.socket', remember)
  isSubscribed = true
  const sockets = new Set<Socket>()
  try {
    return await attempts.run(sockets, connect)
  } catch (error) {
    for (const socket of sockets) socket.destroy()
    throw error
  } finally {
    sockets.clear()
  }
}

/** Only sockets that an attempt has opened: other code of the process may connect to the same server. */
function remember(message: unknown): void {
  const socket: unknown = typeof message === 'object' && message !== null && Reflect.get(message, 'socket')
  if (socket instanceof Socket) attempts.getStore()?.add(socket)
}
