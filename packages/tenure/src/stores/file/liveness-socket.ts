import { createHash } from 'node:crypto'
import { lstat, unlink } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { resolve } from 'node:path'
import { errnoOf } from '@tenure/internal/errno'
import { listen as listenAt, remove, serve } from '@tenure/internal/liveness-socket'
import type { LivenessSocketAddress } from './file-format.ts'

/**
 * A Unix socket that stays open as long as the work may run. The kernel closes it when its process dies.
 *
 * @example
 * const store = fileStore({ directory: './leases', signOfLife: (attempt) => supervisor.serveSocket(attempt) })
 */
export interface LivenessSocket {
  /** The socket's path: at most 103 bytes, and never reused for another attempt. */
  readonly path: string
  /**
   * Must unlink the path before it closes the socket: a closed socket whose path still exists means that the process
   * died.
   */
  close(): void | Promise<void>
}

// What fits into sockaddr_un on every system. Node truncates a longer path without an error.
const longestPathBytes = 103

/** Whether a socket can be created at this path. */
export function fitsSocket(path: string): boolean {
  return Buffer.byteLength(path) <= longestPathBytes
}

/** A socket file name for one attempt only, so that closing an old socket never affects another attempt. */
export function socketName(election: string, attempt: string): string {
  return `${createHash('sha256').update(`${election}\0${attempt}`).digest('hex').slice(0, 24)}.sock`
}

/** Listens and keeps every connection open, without keeping the process alive. */
export async function listen(path: string): Promise<LivenessSocket> {
  const server = await listenAt(path)
  server.unref()
  server.on('connection', (connection) => connection.unref())
  const close = serve(server)
  return {
    path,
    async close() {
      if (await remove(path)) close()
    },
  }
}

/** The address to record for a socket. Undefined if other processes could not use it. */
export async function addressOf(directory: string, path: string): Promise<LivenessSocketAddress | undefined> {
  if (!fitsSocket(resolve(directory, path))) return undefined
  const found = await lstat(resolve(directory, path), { bigint: true }).catch(() => undefined)
  return found?.isSocket() ? { path, device: String(found.dev), inode: String(found.ino) } : undefined
}

/**
 * Why there is no connection to a holder's liveness socket. `dead`: its process is certainly gone. `closed`: the
 * process closed the connection at once, as a dying process does, so check again. `unknown`: the result says nothing
 * about the holder.
 */
export type Unreached = 'dead' | 'closed' | 'unknown'

/**
 * Connects to a holder's liveness socket. Only a refused connection to the recorded socket itself is proof of death.
 */
export async function reach(directory: string, address: LivenessSocketAddress): Promise<Socket | Unreached> {
  const path = resolve(directory, address.path)
  if (!fitsSocket(path)) return 'unknown'
  const reached = await connectTo(path)
  if (reached !== 'refused') return reached
  // Check after the refusal, not before: closing unlinks the path first, so if it still exists, the socket was never
  // closed.
  const found = await addressOf(directory, address.path)
  return found?.device === address.device && found.inode === address.inode ? 'dead' : 'unknown'
}

function connectTo(path: string): Promise<Socket | 'refused' | 'closed' | 'unknown'> {
  return new Promise((settle) => {
    const socket = connect({ path })
    socket.on('error', (error) => {
      const errno = errnoOf(error)
      // A dying process resets a connection that it never accepted.
      if (errno === 'ECONNRESET' || errno === 'EPIPE') settle('closed')
      else settle(errno === 'ECONNREFUSED' ? 'refused' : 'unknown')
    })
    socket.once('connect', () => {
      socket.unref()
      socket.resume()
      settle(socket)
    })
  })
}

/** Removes the socket of an attempt that can never lead again. Does not touch anything other than a socket. */
export async function removeSocket(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found?.isSocket()) await unlink(path).catch(() => {})
}
