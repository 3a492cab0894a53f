import type { DecodedLease } from '../../../src/kubernetes/codec/lease.ts'
import type { LeaseRecord } from '../../../src/engine/lease-store.ts'
import type { RecordDraft } from '../../../src/store-kit/rules.ts'

export const key = { namespace: 'default', name: 'jobs', election: 'jobs' }
export const noon = Date.UTC(2030, 0, 1, 12)

export const draft: RecordDraft = {
  election: 'jobs',
  holder: 'pod-a',
  attempt: 'x.1',
  term: 7,
  leaseDurationMs: 15_000,
  acquiredAt: noon - 61_234,
  renewedAt: noon,
  released: false,
  metadata: { zone: 'az-a' },
  checkpoint: '',
}

export const read = ({ record }: DecodedLease): LeaseRecord => record
