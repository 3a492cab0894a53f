import type { FastifyRequest } from 'fastify'
import { isStillKnown, type Service } from './service.ts'

/**
 * Runs with a signal that aborts when whoever asked has gone, rights were read again, or the service stops: nothing
 * waits for them then.
 */
export async function whileHere<T>(
  service: Service,
  request: FastifyRequest,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const leave = () => controller.abort()
  const { socket } = request.raw
  socket.once('close', leave)
  const forget = service.streams.add({ end: leave })
  if (socket.destroyed || !isStillKnown(service, request)) leave()
  try {
    return await run(controller.signal)
  } finally {
    forget()
    socket.off('close', leave)
  }
}
