import type { LeaseView } from '../src/groups/groups.ts'

/** A lease as others observe it. */
export const sampleLease: LeaseView = {
  nodeId: 'a',
  attempt: 'one',
  instance: undefined,
  term: 1,
  ttlMs: 5_000,
  remainingMs: 5_000,
  acquiredAtMs: 0,
  renewedAtMs: 0,
  metadata: '{}',
  carry: '',
  version: '1',
  mark: undefined,
  ended: false,
}
