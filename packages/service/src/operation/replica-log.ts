import type { Logger } from 'pino'
import { LeadershipLostError, type Clock } from 'tenure'
import type { ReplicaEvent } from '../cluster/replica.ts'

/** Logs what becomes of this replica. */
export function logReplica(logger: Logger): (event: ReplicaEvent) => void {
  return (event) => {
    const { term } = event
    switch (event.type) {
      case 'elected':
        return logger.info({ term }, 'this replica takes over')
      case 'serving':
        return logger.info({ term, tookMs: Math.round(event.tookMs) }, 'this replica is active')
      case 'tail-lost': {
        const text =
          'the storage has lost data that it had confirmed: terms are skipped in every group, and nobody is granted anything for the longest lease'
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

/** Logs what keeps this replica from the storage or from the active one: each kind of trouble once a minute at most. */
export function logTrouble(logger: Logger, clock: Pick<Clock, 'monotonicMs'>): (error: unknown) => void {
  const toldAtMs = new Map<string, number>()
  return (error) => {
    const { code = '', message = String(error) } = (error ?? {}) as { code?: string; message?: string }
    const nowMs = clock.monotonicMs()
    if (nowMs - (toldAtMs.get(code) ?? -Infinity) < everyMs) return
    toldAtMs.set(code, nowMs)
    logger.warn({ code }, message)
  }
}
