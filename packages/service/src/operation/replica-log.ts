import type { Logger } from 'pino'
import { LeadershipLostError, type Clock } from 'tenure'
import type { ReplicaEvent } from '../replication/replica.ts'

/** Returns a function that logs the events of this replica. */
export function logReplica(logger: Logger): (event: ReplicaEvent) => void {
  return (event) => {
    const { term } = event
    switch (event.type) {
      case 'elected':
        return logger.info({ term }, 'this replica is taking over')
      case 'serving':
        return logger.info(
          { term, tookMs: Math.round(event.tookMs), fromCopy: event.fromCopy },
          'this replica is active',
        )
      case 'tail-lost': {
        const text =
          'the storage has lost confirmed data: terms are skipped in every group, and nothing is granted for the longest lease'
        return logger.error({ term, heldMs: event.heldMs }, text)
      }
      case 'ended': {
        const { cause } = event.error
        const isClean =
          cause instanceof LeadershipLostError && (cause.reason === 'stopped' || cause.reason === 'released')
        if (isClean) return logger.info({ term }, 'this replica has handed over')
        return logger.warn({ term, why: event.why }, event.error.message)
      }
    }
  }
}

const everyMs = 60_000

/**
 * Returns a function that logs problems with the storage or with the active replica, each kind at most once a minute.
 */
export function logReplicaErrors(logger: Logger, clock: Pick<Clock, 'monotonicMs'>): (error: unknown) => void {
  const toldAtMs = new Map<string, number>()
  return (error) => {
    const { code = '', message = String(error) } = (error ?? {}) as { code?: string; message?: string }
    const nowMs = clock.monotonicMs()
    if (nowMs - (toldAtMs.get(code) ?? -Infinity) < everyMs) return
    toldAtMs.set(code, nowMs)
    logger.warn({ code }, message)
  }
}
