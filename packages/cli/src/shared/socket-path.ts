import { once } from 'node:events'
import { chmodSync, chownSync, lstatSync, readFileSync, unlinkSync } from 'node:fs'
import { connect, type Server } from 'node:net'
import type { SocketPath } from './arguments/addresses.ts'
import { unavailable, usageError } from './arguments/errors.ts'

/** Listens on a Unix socket. Replaces a socket that a killed process left behind. */
export async function listenOnPath(server: Server, { path, mode }: SocketPath): Promise<void> {
  try {
    await removeIfLeft(path)
    // listen() creates the socket synchronously, so its mode is correct from the start.
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

/** Lets the members of a group connect. Until then, only the same user can. */
export function admitGroup(path: string, groupId: number): void {
  try {
    chownSync(path, -1, groupId)
    chmodSync(path, 0o660)
  } catch (error) {
    throw unavailable(error, `tenure cannot change the group of ${path}: ${reasonOf(error)}.`)
  }
}

/** Returns the number of a group. Node cannot ask the system for it, so only the groups in /etc/group have names here. */
export function groupIdOf(group: string): number {
  if (/^\d{1,9}$/.test(group)) return Number(group)
  const lines = readFileSync('/etc/group', 'utf8').split('\n')
  const [, , number] = lines.map((line) => line.split(':')).find(([name]) => name === group) ?? []
  if (number === undefined)
    throw usageError([`--group must be a group of /etc/group or a number. There is no ${group}.`])
  return Number(number)
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
