import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A fault in the etcd store or its client, and the check that must notice it. */
export interface EtcdMutation extends Mutation {
  /** A case of the conformance suite, or a check of `test/etcd`. */
  readonly caughtBy: string
}

const lostAcquire = 'an acquire whose answer is lost finds its own grant at the next member'

/** Every one of them must be noticed on a real etcd. */
export const etcdMutations: readonly EtcdMutation[] = [
  {
    name: 'the highest term is not compared',
    file: 'stores/etcd.ts',
    find: ', sameTerm(keys, pair)]',
    replace: ']',
    caughtBy: 'a deleted record is waited for as long as its lease lasted, even by a candidate that never saw it',
  },
  {
    name: 'the record is not compared',
    file: 'stores/etcd.ts',
    find: '...sameRecord(keys, pair), ',
    replace: '',
    caughtBy: 'a version that was renewed since it was seen is not taken over',
  },
  {
    name: 'the highest term is kept in the record alone',
    file: 'stores/etcd.ts',
    find: '...(isKept ? [] : [',
    replace: '...(isKept || draft ? [] : [',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a highest term is lowered',
    file: 'stores/etcd.ts',
    find: 'term: Math.max(over.highestTerm, draft.term)',
    replace: 'term: draft.term',
    caughtBy: 'a highest term is never lowered',
  },
  {
    name: 'the duration is not kept beside the term',
    file: 'stores/etcd.ts',
    find: 'lastDurationMs: kept?.leaseDurationMs, kept }',
    replace: 'lastDurationMs: undefined, kept }',
    caughtBy: 'a deleted record is waited for as long as its lease lasted, even by a candidate that never saw it',
  },
  {
    name: 'a refused transaction is taken for done',
    file: 'stores/etcd.ts',
    find: 'if (!succeeded) return',
    replace: 'if (!succeeded && !revision) return',
    caughtBy: 'exactly one of many contenders wins a released lease',
  },
  {
    name: 'a refusal is read in a second request',
    file: 'stores/etcd.ts',
    find: 'if (!succeeded) return { ok: false, found: foundOf(election, keys, pairOf(ranges)) }',
    replace: 'if (!succeeded) return { ok: false }',
    caughtBy: 'a grant, a renewal, a release and a refusal are one request each',
  },
  {
    name: 'names are used as they are',
    file: 'stores/etcd.ts',
    find: '${encodeURIComponent(election)}/`',
    replace: '${election}/`',
    caughtBy: 'prefixes and elections that begin alike share nothing',
  },
  {
    name: 'a watch is resumed with what comes next',
    file: 'stores/etcd.ts',
    find: 'fromRevision: String(BigInt(seen.revision) + 1n)',
    replace: "fromRevision: '0'",
    caughtBy: 'a watch that broke off shows what happened meanwhile',
  },
  {
    name: 'a compacted history ends the watch',
    file: 'stores/etcd.ts',
    find: "const gone = error instanceof EtcdError && error.reason === 'compacted' &&",
    replace: "const gone = error instanceof EtcdError && error.reason === 'other' &&",
    also: [
      {
        file: 'stores/etcd.ts',
        find: 'const cut = isTenureError(error) &&',
        replace: 'const cut = isTenureError(error) && !(error instanceof EtcdError) &&',
      },
    ],
    caughtBy: 'a watch whose history was compacted begins again with the state as it is',
  },
  {
    name: 'a member that does not answer is not replaced',
    file: 'etcd/client.ts',
    find: 'const peers = addresses.map(',
    replace: 'const peers = addresses.slice(0, 1).map(',
    caughtBy: lostAcquire,
  },
]

/** Found only where a member is cut off from its cluster. */
export const etcdClusterMutations: readonly EtcdMutation[] = [
  {
    name: 'a member answers a read from its own copy',
    file: 'etcd/messages.ts',
    find: 'const range = { key: base64(get),',
    replace: 'const range = { serializable: true, key: base64(get),',
    caughtBy: 'a member that is cut off gives no answer from its own copy',
  },
  {
    name: 'a watch stays with a member that is cut off',
    file: 'etcd/client.ts',
    find: "'grpc-metadata-hasleader': 'true'",
    replace: "'grpc-metadata-hasleader': 'false'",
    caughtBy: 'a watch leaves a member that is cut off, long before its silence counts',
  },
]

/** Found only where the data of a server are replaced. */
export const etcdHistoryMutations: readonly EtcdMutation[] = [
  {
    name: 'a version is the revision alone',
    file: 'stores/etcd.ts',
    find: "return `${modRevision}-${createHash('sha256').update(value).digest('hex').slice(0, 16)}`",
    replace: 'return modRevision',
    caughtBy: 'a lease is not taken over by a candidate that counted a version of another history',
  },
  {
    name: 'a guess is compared by its revision alone',
    file: 'stores/etcd.ts',
    find: '    { key, value },\n',
    replace: '',
    also: [
      {
        file: 'stores/etcd.ts',
        find: 'return term ? { key, value: term.value } : isAbsent(key)',
        replace: 'return { key, modRevision: term?.modRevision ?? absentRevision }',
      },
    ],
    caughtBy: 'a lease is not taken over by a candidate that saw another one released at the same revision',
  },
  {
    name: 'a revision below one that was seen is believed',
    file: 'etcd/client.ts',
    find: 'if (revision < before) throw',
    replace: 'if (revision < 0n) throw',
    caughtBy: 'a history that ends before what was seen is not believed',
  },
]
