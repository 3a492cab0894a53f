import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { systemClock } from './clock.ts'

export interface ConnectionLimits {
  readonly maxConnections: number
  readonly maxConnectionsPerAddress: number
  readonly answerTimeoutMs: number
}

/** Bounds how many connections there are, and how long an answer lies unread. */
export function guardConnections(server: Server, limits: ConnectionLimits): void {
  server.maxConnections = limits.maxConnections
  limitAddresses(server, limits.maxConnectionsPerAddress)
  cutUnread(server, limits.answerTimeoutMs)
}

function limitAddresses(server: Server, most: number): void {
  const counts = new Map<string, number>()
  server.prependListener('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? ''
    const count = (counts.get(address) ?? 0) + 1
    counts.set(address, count)
    socket.once('close', () => {
      const others = (counts.get(address) ?? 1) - 1
      if (others === 0) counts.delete(address)
      else counts.set(address, others)
    })
    if (count > most) socket.destroy()
  })
}

/**
 * Node has a limit for slow senders, none for slow readers. An answer of which nothing was taken for so long holds
 * memory for somebody who will not come back.
 */
function cutUnread(server: Server, timeoutMs: number): void {
  const open = new Set<Socket>()
  const unread = new Map<Socket, { readonly taken: number; readonly sinceMs: number }>()
  const add = (socket: Socket) => {
    // Each request that waits looks out for the end of its connection, and several may wait on one.
    socket.setMaxListeners(0)
    open.add(socket)
    socket.once('close', () => {
      open.delete(socket)
      unread.delete(socket)
    })
  }
  server.on('connection', (socket: Socket) => void (socket instanceof TLSSocket || add(socket)))
  server.on('secureConnection', add)
  const periodMs = Math.min(5_000, Math.ceil(timeoutMs / 4))
  const look = () => {
    timer = systemClock.setTimer(periodMs, look, { background: true })
    const nowMs = systemClock.monotonicMs()
    for (const socket of open) {
      if (socket.writableLength === 0) {
        unread.delete(socket)
        continue
      }
      const taken = socket.bytesWritten - socket.writableLength
      const before = unread.get(socket)
      if (before?.taken !== taken) unread.set(socket, { taken, sinceMs: nowMs })
      else if (nowMs - before.sinceMs >= timeoutMs) socket.destroy()
    }
  }
  let timer = systemClock.setTimer(periodMs, look, { background: true })
  server.once('close', () => timer.cancel())
}
