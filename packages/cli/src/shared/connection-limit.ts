import { ConnectionLimiter } from '@tenure/internal/connection-limiter'
import { systemClock } from '@tenure/internal/clock'
import type { Server } from 'node:http'
import { setBackgroundTimer } from './clock.ts'

/** How long a connection may be idle before its caller has authenticated. */
export const unknownIdleMs = 5_000
const lookMs = 1_000

/**
 * Limits the connections of a small server, so that nobody can hold all of them. There is no limit per address, because
 * all callers are on one machine, so an address does not identify a caller.
 */
export function limitConnections(server: Server, most: number, { mostUnknown = most } = {}): ConnectionLimiter {
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
    setBackgroundTimer(lookMs, look)
  }
  setBackgroundTimer(lookMs, look)
  return room
}
