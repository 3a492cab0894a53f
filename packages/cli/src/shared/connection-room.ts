import { ConnectionLimiter } from '@tenure/internal/connection-limiter'
import { systemClock } from '@tenure/internal/clock'
import type { Server } from 'node:http'
import { after } from './clock.ts'

/** How long a connection may be idle before its caller has authenticated. */
export const unknownIdleMs = 5_000
const lookMs = 1_000

/**
 * Limits the connections of a small server, so that nobody can hold all of them. There is no limit per address: all
 * callers are on one machine, so an address does not identify a caller.
 */
export function makeRoom(server: Server, most: number, { mostUnknown = most } = {}): ConnectionLimiter {
  const room = new ConnectionLimiter({
    most,
    mostUnknown,
    mostPerAddress: most,
    mostUnknownPerAddress: most,
    unknownIdleMs,
    nowMs: () => systemClock.monotonicMs(),
  })
  room.guard(server)
  let isOver = false
  server.once('close', () => (isOver = true))
  const look = () => {
    if (isOver) return
    room.closeIdle()
    after(lookMs, look)
  }
  after(lookMs, look)
  return room
}
