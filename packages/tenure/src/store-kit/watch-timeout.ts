import type { LeaseRecord } from '../engine/lease-store.ts'

const idleWatchTimeoutMs = 90_000

/**
 * How long a watch may be silent before it is reopened. The leader renews within the lease duration, so a watch that
 * stays silent for longer cannot be trusted. A shorter limit would only cost requests.
 */
export function watchTimeoutMs(record: LeaseRecord | undefined): number {
  const held = record && !record.released && record.leaseDurationMs > 0
  return held ? record.leaseDurationMs * 1.5 : idleWatchTimeoutMs
}
