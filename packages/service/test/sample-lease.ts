import type { LeaseView } from '../src/groups/port.ts'

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
  checkpoint: '',
  version: '1',
  writeId: undefined,
  successor: undefined,
  ended: false,
}
