import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A fault in the Kubernetes store or in how it writes Leases, and the check that must notice it. */
export interface KubernetesMutation extends Mutation {
  /** A case of the conformance suite, or a check of kubernetes-mutants.test.ts. */
  readonly caughtBy: string
}

/** Every one of them must be noticed on a real API server. */
export const kubernetesMutations: readonly KubernetesMutation[] = [
  {
    name: 'a renewal writes what the wall clock shows',
    file: 'kubernetes/codec/lease.ts',
    find: 'return next - nowMs > farAheadMs ? nowMs : Math.max(nowMs, next)',
    replace: 'return next - nowMs > farAheadMs ? nowMs : nowMs',
    caughtBy: 'client-go leaves the lease to a healthy leader whose wall clock stands still',
  },
  {
    name: 'a duration is rounded down',
    file: 'kubernetes/codec/lease.ts',
    find: 'Math.ceil(draft.leaseDurationMs / 1000)',
    replace: 'Math.floor(draft.leaseDurationMs / 1000)',
    // The holder would count with what stands in the Lease, so that this alone only makes leases shorter.
    also: [
      {
        file: 'stores/swap.ts',
        find: 'if (second?.ok) return granted(second.found.record, claim)',
        replace:
          'if (second?.ok) return granted({ ...second.found.record, leaseDurationMs: claim.leaseDurationMs }, claim)',
      },
      {
        file: 'stores/swap.ts',
        find: 'if (first?.ok) return granted(first.found.record, claim)',
        replace:
          'if (first?.ok) return granted({ ...first.found.record, leaseDurationMs: claim.leaseDurationMs }, claim)',
      },
    ],
    caughtBy: 'a Lease tells of no shorter time than its holder counts with',
  },
  {
    name: 'a release gives back whatever it finds',
    file: 'stores/judged.ts',
    find: '(current) => judgeRelease(current, claim))',
    replace:
      '({ record, ...current }) => record ? { write: { ...record, released: true } } : judgeRelease({ ...current, record }, claim))',
    caughtBy: 'a late release does not change the successor',
  },
  {
    name: 'a take-over writes over a version that was just read',
    file: 'stores/swap.ts',
    find: 'await swap(guessed, judge(guessed))',
    replace: 'await swap(await server.find(election, call), judge(guessed))',
    caughtBy: 'a version that was renewed since it was seen is not taken over',
  },
  {
    name: 'a take-over does not raise leaseTransitions',
    file: 'kubernetes/codec/lease.ts',
    find: 'leaseTransitions: term,',
    replace: "leaseTransitions: lease?.spec['leaseTransitions'] ?? term,",
    caughtBy: 'terms rise with every grant, even to the same holder',
  },
  {
    name: 'a refused write is taken for done',
    file: 'stores/kubernetes.ts',
    find: 'if (overtaken) return { ok: false }',
    replace:
      "if (overtaken) return { ok: true, found: decodeLease({ ...body, metadata: { resourceVersion: '1' } }, election) }",
    caughtBy: 'exactly one of many contenders wins a released lease',
  },
  {
    name: 'an attempt counts although another program took the Lease',
    file: 'kubernetes/codec/lease.ts',
    find: 'grant?.term === term && grant.holder === holder ? grant : undefined',
    replace: 'grant',
    caughtBy: 'a Lease that another program took is that program’s, with the old annotations too',
  },
  {
    name: 'a Lease that another program wiped is taken for released',
    file: 'kubernetes/codec/lease.ts',
    find: 'last !== undefined && !last.released',
    replace: 'last !== undefined && last.term < 0',
    caughtBy: 'a Lease that another program wiped is not free before it ran out',
  },
  {
    name: 'a term that another program wrote back down is granted again',
    file: 'kubernetes/codec/lease.ts',
    find: 'Math.max(record.term, grant?.term ?? 0)',
    replace: 'record.term',
    also: [{ file: 'kubernetes/codec/lease.ts', find: 'term: last?.term ?? term,', replace: 'term,' }],
    caughtBy: 'a term is not granted again after another program lowered it',
  },
  {
    name: 'a name that a Lease can have is hashed, because a part of it is long',
    file: 'kubernetes/codec/lease-name.ts',
    find: "'[a-z0-9](?:[-a-z0-9]*[a-z0-9])?'",
    replace: "'[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?'",
    caughtBy: 'a Lease whose name has a part of 100 characters is found by that name',
  },
]
