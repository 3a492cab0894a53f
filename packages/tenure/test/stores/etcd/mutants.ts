import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the etcd store or its client, and the check that must catch it. */
export interface EtcdMutation extends Mutation {
  /** A case of the conformance suite, or a check in `test/clients/etcd/checks.ts`. */
  readonly caughtBy: string
}

const lostAcquire = 'acquire finds its own grant on the next member when its answer is lost'

/** A real etcd must reveal every one of these. */
export const etcdMutations: readonly EtcdMutation[] = [
  {
    name: 'the swap does not compare the highest term',
    file: 'stores/etcd/lease-records.ts',
    find: ', sameTerm(keys, pair)]',
    replace: ']',
    caughtBy: 'a candidate waits for the lease duration of a deleted record even if it never saw the record',
  },
  {
    name: 'the swap does not compare the record',
    file: 'stores/etcd/lease-records.ts',
    find: '...sameRecord(keys, pair), ',
    replace: '',
    caughtBy: 'a takeover is refused when the record was renewed after it was read',
  },
  {
    name: 'the highest term is stored only in the record',
    file: 'stores/etcd/lease-records.ts',
    find: '...(isKept ? [] : [',
    replace: '...(isKept || draft ? [] : [',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a lower term overwrites the highest term',
    file: 'stores/etcd/lease-records.ts',
    find: 'term: Math.max(over.highestTerm, draft.term)',
    replace: 'term: draft.term',
    caughtBy: 'a renewal never lowers the highest term',
  },
  {
    name: 'the lease duration is not stored with the term',
    file: 'stores/etcd/lease-records.ts',
    find: 'lastDurationMs: kept?.leaseDurationMs, kept }',
    replace: 'lastDurationMs: undefined, kept }',
    caughtBy: 'a candidate waits for the lease duration of a deleted record even if it never saw the record',
  },
  {
    name: 'a refused transaction counts as applied',
    file: 'stores/etcd/lease-records.ts',
    find: 'if (!succeeded) return',
    replace: 'if (!succeeded && !revision) return',
    caughtBy: 'exactly one of many contenders wins a released lease',
  },
  {
    name: 'a refusal needs a second request to read the state',
    file: 'stores/etcd/lease-records.ts',
    find: 'if (!succeeded) return { ok: false, found: foundOf(election, keys, pairOf(ranges)) }',
    replace: 'if (!succeeded) return { ok: false }',
    caughtBy: 'a grant, a renewal, a release and a refusal take one request each',
  },
  {
    name: 'election names are used in keys without encoding',
    file: 'stores/etcd/lease-records.ts',
    find: '${encodeURIComponent(election)}/`',
    replace: '${election}/`',
    caughtBy: 'prefixes and elections with a common beginning share no keys',
  },
  {
    name: 'a watch resumes at the current revision and skips changes',
    file: 'stores/etcd/lease-records.ts',
    find: 'fromRevision: String(BigInt(seen.revision) + 1n)',
    replace: "fromRevision: '0'",
    caughtBy: 'a watch that was interrupted shows the changes made in the meantime',
  },
  {
    name: 'a compacted history ends the watch',
    file: 'stores/etcd/lease-records.ts',
    find: "const gone = error instanceof EtcdError && error.reason === 'compacted' &&",
    replace: "const gone = error instanceof EtcdError && error.reason === 'other' &&",
    also: [
      {
        file: 'stores/etcd/lease-records.ts',
        find: 'const cut = isTenureError(error) &&',
        replace: 'const cut = isTenureError(error) && !(error instanceof EtcdError) &&',
      },
    ],
    caughtBy: 'a watch whose history was compacted starts again with the current state',
  },
  {
    name: 'only the first member is used',
    file: 'clients/etcd/client.ts',
    find: 'const peers = addresses.map(',
    replace: 'const peers = addresses.slice(0, 1).map(',
    caughtBy: lostAcquire,
  },
]

/** Revealed only when a member is cut off from its cluster. */
export const etcdClusterMutations: readonly EtcdMutation[] = [
  {
    name: 'a member answers a read from its own copy',
    file: 'clients/etcd/messages.ts',
    find: 'const range = { key: base64(get),',
    replace: 'const range = { serializable: true, key: base64(get),',
    caughtBy: 'a member that is cut off does not answer from its own copy',
  },
  {
    name: 'a watch stays on a member that is cut off',
    file: 'clients/etcd/client.ts',
    find: "'grpc-metadata-hasleader': 'true'",
    replace: "'grpc-metadata-hasleader': 'false'",
    caughtBy: 'a watch leaves a member that is cut off, long before the watch timeout',
  },
]

/** Revealed only when a server's data is replaced. */
export const etcdHistoryMutations: readonly EtcdMutation[] = [
  {
    name: 'a version contains only the revision',
    file: 'stores/etcd/lease-records.ts',
    find: "return `${modRevision}-${createHash('sha256').update(value).digest('hex').slice(0, 16)}`",
    replace: 'return modRevision',
    caughtBy: 'a takeover is refused when the expired version belongs to another history',
  },
  {
    name: 'a remembered state is compared only by its revision',
    file: 'stores/etcd/lease-records.ts',
    find: '    { key, value },\n',
    replace: '',
    also: [
      {
        file: 'stores/etcd/lease-records.ts',
        find: 'return term ? { key, value: term.value } : isAbsent(key)',
        replace: 'return { key, modRevision: term?.modRevision ?? absentRevision }',
      },
    ],
    caughtBy: 'a takeover is refused when the candidate saw another lease released at the same revision',
  },
  {
    name: 'a lower revision than one already seen is accepted',
    file: 'clients/etcd/client.ts',
    find: 'if (revision < before) throw',
    replace: 'if (revision < 0n) throw',
    caughtBy: 'calls are rejected when the history of the server ends before a revision that was already seen',
  },
]
