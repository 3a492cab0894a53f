import type { LeaseRecord } from '../lease-store.ts'

const quietMs = 90_000

/**
 * For how long a watch may show nothing. The leader renews within the lease's duration, which may be long: a watch that is
 * silent for longer than that is not to be trusted, and one that is given up sooner costs requests.
 */
export function silenceOf(record: LeaseRecord | undefined): number {
  const held = record && !record.released && record.leaseDurationMs > 0
  return held ? record.leaseDurationMs * 1.5 : quietMs
}
