import { once } from 'node:events'
import { lstatSync, unlinkSync } from 'node:fs'
import { connect, type Server } from 'node:net'
import type { SocketPath } from './arguments/addresses.ts'
import { unavailable } from './arguments/errors.ts'

/** Listens on a Unix socket. It replaces a socket that a killed process left behind. */
export async function listenOnPath(server: Server, { path, mode }: SocketPath): Promise<void> {
  try {
    await removeIfLeft(path)
    // listen() creates the socket synchronously, so it never has any other mode, not even for a moment.
    const before = process.umask(0o777 & ~mode)
    try {
      server.listen(path)
    } finally {
      process.umask(before)
    }
    await once(server, 'listening')
  } catch (error) {
    throw unavailable(error, `tenure cannot listen on ${path}: ${reasonOf(error)}.`)
  }
}

async function removeIfLeft(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw new Error('the path exists and is not a socket')
  const socket = connect(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED') throw error
    unlinkSync(path)
    return
  } finally {
    socket.destroy()
  }
  throw new Error('another program is listening there')
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  const why = {
    EACCES: 'permission denied',
    EPERM: 'permission denied',
    ENOENT: 'its directory does not exist',
    EADDRINUSE: 'another program is listening there',
  }[code ?? '']
  return why ?? message
}
