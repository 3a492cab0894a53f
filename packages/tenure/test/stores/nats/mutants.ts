import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the NATS store, and the check that must catch it. */
export interface NatsMutation extends Mutation {
  /** A case of the conformance suite, or a check in `checks.ts`. */
  readonly caughtBy: string
}

const bucket = 'stores/nats/bucket.ts'
const isCurrent = '(at(reads)?.seq ?? 0) >= revision'

/** A single server must reveal every one of these. */
export const natsMutations: readonly NatsMutation[] = [
  {
    name: 'a value is replaced whatever its revision is',
    file: bucket,
    find: 'kv.update(key, text, revisionIn(version))',
    replace: 'kv.put(key, text)',
    caughtBy: 'exactly one of many renewals of the same version wins',
  },
  {
    name: 'a value is created even if there is one',
    file: bucket,
    find: 'kv.create(key, text)',
    replace: 'kv.put(key, text)',
    caughtBy: 'exactly one of many contenders wins a new election',
  },
  {
    name: 'a refused write is an error',
    file: 'stores/nats/failures.ts',
    find: 'return wrongRevisions.has(Number(codeOf(error)))',
    replace: 'return wrongRevisions.has(Number(codeOf(error)) * -1)',
    caughtBy: 'a failed condition is a refusal, not an error',
  },
  {
    name: 'an election is forgotten even if its record has changed',
    file: bucket,
    find: 'await kv.delete(keyOf(election, kind), { previousSeq: revisionIn(version) })',
    replace: 'await kv.delete(keyOf(election, kind), {} as { previousSeq: number })',
    caughtBy: 'forget does not remove a grant made after it read the record',
  },
  {
    name: 'a version contains only the revision',
    file: bucket,
    find: "return `${revision}-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`",
    replace: 'return `${revision}-`',
    caughtBy: 'a version is not repeated after the bucket was deleted and created again',
  },
  {
    name: 'unusual characters of election names are replaced by one sign',
    file: 'stores/nats/keys.ts',
    find: '${encodeName(election, plainName)}.${kind}',
    replace: "${election.replace(/[^-/=\\w]/g, '_')}.${kind}",
    caughtBy: 'elections whose names have characters that keys do not allow have their own leases',
  },
  {
    name: 'a watch waits for the next change after the newest one',
    file: bucket,
    find: 'resumeFromRevision: from.revision + 1',
    replace: 'resumeFromRevision: from.revision + 2',
    caughtBy: 'a watch shows the first change after it was opened',
  },
  {
    name: 'a watch does not read again after a silence',
    file: bucket,
    find: 'if (isSilent) seen = undefined',
    replace: '',
    caughtBy: 'a watch shows a record that was deleted without a trace',
  },
  {
    name: 'the settings of a bucket are not checked',
    file: 'stores/nats/open-buckets.ts',
    find: 'checkBucket(bucket, streamInfo.config)',
    replace: '',
    caughtBy: 'a bucket in memory is refused',
  },
]

/** Revealed only by a cluster. */
export const natsClusterMutations: readonly NatsMutation[] = [
  {
    name: 'a read accepts an answer without its own write',
    file: bucket,
    find: isCurrent,
    replace: 'revision > 0',
    caughtBy: 'an answer of a server that does not have the newest write is not used',
  },
  {
    name: 'a read does not write first',
    file: bucket,
    find: "const revision = await kv.put(readsKey, '')",
    replace: 'const revision = 0',
    caughtBy: 'a server that is cut off from the others does not answer a read from its own copy',
  },
]
