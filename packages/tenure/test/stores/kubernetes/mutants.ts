import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the Kubernetes store or its Lease encoding, and the check that must catch it. */
export interface KubernetesMutation extends Mutation {
  /** A case of the conformance suite, or a check in mutants.server.test.ts. */
  readonly caughtBy: string
}

/** A real API server must reveal every one of these. */
export const kubernetesMutations: readonly KubernetesMutation[] = [
  {
    name: 'a renewal writes the wall clock without advancing renewTime',
    file: 'kubernetes/codec/lease.ts',
    find: 'return next - nowMs > farAheadMs ? nowMs : Math.max(nowMs, next)',
    replace: 'return next - nowMs > farAheadMs ? nowMs : nowMs',
    caughtBy: 'client-go leaves the lease to a healthy leader whose wall clock has stopped',
  },
  {
    name: 'a lease duration is rounded down',
    file: 'kubernetes/codec/lease.ts',
    find: 'Math.ceil(draft.leaseDurationMs / 1000)',
    replace: 'Math.floor(draft.leaseDurationMs / 1000)',
    // On its own, rounding down would only shorten leases, because the holder uses the duration in the Lease.
    also: [
      {
        file: 'store-kit/compare-and-swap-store.ts',
        find: 'if (second?.ok) return granted(second.found.record, claim)',
        replace:
          'if (second?.ok) return granted({ ...second.found.record, leaseDurationMs: claim.leaseDurationMs }, claim)',
      },
      {
        file: 'store-kit/compare-and-swap-store.ts',
        find: 'if (first?.ok) return granted(first.found.record, claim)',
        replace:
          'if (first?.ok) return granted({ ...first.found.record, leaseDurationMs: claim.leaseDurationMs }, claim)',
      },
    ],
    caughtBy: 'the duration in a Lease is never shorter than its holder assumes',
  },
  {
    name: 'a release releases whatever record it finds',
    file: 'store-kit/locking-store.ts',
    find: '(current) => judgeRelease(current, claim))',
    replace:
      '({ record, ...current }) => record ? { write: { ...record, released: true } } : judgeRelease({ ...current, record }, claim))',
    caughtBy: 'a late release does not change the successor',
  },
  {
    name: 'a takeover overwrites a version that was just read instead of the expired one',
    file: 'store-kit/compare-and-swap-store.ts',
    find: 'await swap(guessed, judge(guessed))',
    replace: 'await swap(await server.find(election, call), judge(guessed))',
    caughtBy: 'a takeover is refused when the record was renewed after it was read',
  },
  {
    name: 'a takeover does not raise leaseTransitions',
    file: 'kubernetes/codec/lease.ts',
    find: 'leaseTransitions: term,',
    replace: "leaseTransitions: lease?.spec['leaseTransitions'] ?? term,",
    caughtBy: 'terms rise with every grant, even to the same holder',
  },
  {
    name: 'a refused write counts as applied',
    file: 'stores/kubernetes/index.ts',
    find: 'if (overtaken) return { ok: false }',
    replace:
      "if (overtaken) return { ok: true, found: decodeLease({ ...body, metadata: { resourceVersion: '1' } }, election) }",
    caughtBy: 'exactly one of many contenders wins a released lease',
  },
  {
    name: 'an attempt still counts after another program took the Lease',
    file: 'kubernetes/codec/lease.ts',
    find: 'grant?.term === term && grant.holder === holder ? grant : undefined',
    replace: 'grant',
    caughtBy: 'a Lease that another program took belongs to that program, despite the old annotations',
  },
  {
    name: 'a Lease that another program wiped counts as released',
    file: 'kubernetes/codec/lease.ts',
    find: 'last !== undefined && !last.released',
    replace: 'last !== undefined && last.term < 0',
    caughtBy: 'a Lease that another program wiped is not free before it expires',
  },
  {
    name: 'a term that another program lowered is granted again',
    file: 'kubernetes/codec/lease.ts',
    find: 'Math.max(record.term, grant?.term ?? 0)',
    replace: 'record.term',
    also: [{ file: 'kubernetes/codec/lease.ts', find: 'term: last?.term ?? term,', replace: 'term,' }],
    caughtBy: 'a term is not granted again after another program lowered it',
  },
  {
    name: 'a valid Lease name is hashed because one of its parts is long',
    file: 'kubernetes/codec/lease-name.ts',
    find: "'[a-z0-9](?:[-a-z0-9]*[a-z0-9])?'",
    replace: "'[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?'",
    caughtBy: 'a Lease whose name has a part of 100 characters keeps its name',
  },
]
