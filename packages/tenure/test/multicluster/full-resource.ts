import type { MultiClusterLease, RelayedRecord, RequestClaim } from '../../src/multicluster/protocol/resource-types.ts'

/** The same type with all fields required, so that a new field causes a type error here. */
type Whole<T> = T extends string | number | boolean
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Whole<Item>[]
    : { readonly [Field in keyof T]-?: Whole<Exclude<T[Field], undefined>> }

const time = '2026-01-02T03:04:05.000006Z'

const claim: Whole<RequestClaim> = {
  holder: 'pod-ä',
  attempt: 'attempt',
  leaseDurationMs: 15_000.5,
  afterTerm: 2 ** 53 - 1,
  expiredVersion: '',
  metadata: '{"zone":"a"}',
  term: 7,
  version: 'v"7"',
  checkpoint: 'page 7\n',
  writeId: 'writeId',
  successor: 'successor',
}

const record: Whole<RelayedRecord> = {
  holder: 'west/pod',
  cluster: 'west',
  attempt: 'attempt',
  term: 7,
  leaseDurationMs: 15_000,
  acquiredAt: 1_767_323_045_000.25,
  renewedAt: 1_767_323_046_000,
  released: false,
  metadata: '{}',
  checkpoint: '',
  version: '"etag"',
  writeId: 'writeId',
  successor: 'successor',
}

/** A resource with every field that candidates and controllers write. */
export const whole: Whole<Pick<MultiClusterLease, 'spec' | 'status'>> = {
  spec: {
    holderIdentity: 'pod-ä',
    leaseDurationSeconds: 15,
    renewTime: time,
    requests: { key: { id: 'id.1', verb: 'acquire', renewTime: time, timeoutMs: 5_000.5, claim } },
  },
  status: {
    leader: 'west/pod',
    globalHolderIdentity: 'west/pod',
    cluster: 'west',
    term: 7,
    acquireTime: time,
    renewTime: time,
    leaseDurationSeconds: 15,
    observedGeneration: 1,
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'Answered',
        message: 'All is well.',
        lastTransitionTime: '2026-01-02T03:04:05Z',
        observedGeneration: 1,
      },
    ],
    record,
    answers: {
      key: {
        id: 'id.1',
        ok: true,
        record,
        validForMs: 15_000.5,
        highestTerm: 7,
        retryAfterMs: 1.5,
        error: { code: 'INVALID_REQUEST', message: 'No such verb.' },
      },
    },
    silent: ['key'],
  },
}
