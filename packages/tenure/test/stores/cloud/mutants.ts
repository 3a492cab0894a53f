import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A fault in a cloud's store, and the check that must notice it. */
export interface CloudMutation extends Mutation {
  /** A case of the conformance suite, or a check of the store's own beside this file. */
  readonly caughtBy: string
}

const newElection = 'of two creates of one record in flight exactly one wins'
const renewals = 'of two renewals of one version in flight exactly one wins'
const keepsFound = 'const raised = await this.#raise(election, kept, record, call).catch(termDenied)'
const lostAnswer = 'a write that the client repeats, because its answer was lost, is one grant'

/** Every one of them must be noticed on a stand-in of DynamoDB. */
export const dynamodbMutations: readonly CloudMutation[] = [
  {
    name: 'an item is made whatever is there',
    file: 'stores/dynamodb.ts',
    find: "ConditionExpression: 'attribute_not_exists(#id)'",
    replace: "ConditionExpression: 'attribute_not_exists(#id) or attribute_exists(#id)'",
    caughtBy: newElection,
  },
  {
    name: 'an item is replaced whatever its version',
    file: 'stores/dynamodb.ts',
    find: "ConditionExpression: '#version = :version'",
    replace: "ConditionExpression: '#version <> :version or #version = :version'",
    caughtBy: renewals,
  },
  {
    name: 'a version stays as it is',
    file: 'stores/dynamodb.ts',
    find: 'const next = this.#clock.randomId()',
    replace: 'const next = election',
    caughtBy: 'every write creates a version that no earlier write had',
  },
  {
    name: 'a replica that lags behind may answer a read',
    file: 'stores/dynamodb.ts',
    find: 'Key: key, ConsistentRead: true }',
    replace: 'Key: key, ConsistentRead: false }',
    caughtBy: 'every read is a consistent one',
  },
  {
    name: 'a condition of DynamoDB that does not hold is an error',
    file: 'stores/dynamodb.ts',
    find: 'if (isOvertaken(error)) return undefined',
    replace: '',
    caughtBy: 'a condition that does not hold is an answer',
  },
  {
    name: 'an item without a record is one that was never written',
    file: 'stores/dynamodb.ts',
    find: 'return item && valueOf(item)',
    replace: "return item?.['content'] && valueOf(item)",
    caughtBy: 'an item of another program is left alone',
    also: [
      {
        file: 'stores/dynamodb.ts',
        find: "ConditionExpression: 'attribute_not_exists(#id)'",
        replace: "ConditionExpression: 'attribute_not_exists(#id) or attribute_not_exists(version)'",
      },
    ],
  },
  {
    name: 'the highest term is kept in the record alone',
    file: 'stores/objects.ts',
    find: 'const kept = await this.#keep(election, over, record, call)',
    replace: "const kept = { value: record, version: 'none' }",
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a record that arrives late, after a deleted grant, counts',
    file: 'stores/objects.ts',
    find: 'record: isLate(record, value) ? undefined : record,',
    replace: 'record,',
    caughtBy: 'a claim that arrives after a deleted grant is nobody’s',
  },
  {
    name: 'a claim that arrives late, after a deleted grant, is granted',
    file: 'stores/objects.ts',
    find: 'if (isLate(record, kept?.value)) return undefined',
    replace: '',
    caughtBy: 'a claim that arrives after a deleted grant is nobody’s',
  },
  {
    name: 'a kept term does not say whose grant it was',
    file: 'stores/objects.ts',
    find: '|| (record.term === kept.term && record.attempt !== kept.attempt)',
    replace: '',
    caughtBy: 'a claim that arrives after a deleted grant is nobody’s',
  },
  {
    name: 'a grant is found before its term is kept',
    file: 'stores/objects.ts',
    find: 'if (!record || (kept && record.term <= kept.value.term)) return foundOf(record, kept)',
    replace: 'if (record || !record) return foundOf(record, kept)',
    caughtBy: 'a grant is found by nobody before its term is kept',
  },
  {
    name: 'a process that finds a grant keeps its duration too',
    file: 'stores/objects.ts',
    find: keepsFound,
    replace: 'const raised = await this.#keep(election, foundOf(undefined, kept), record, call)',
    caughtBy: 'a process that finds a grant late does not shorten its kept lease',
  },
  {
    name: 'any failure to keep a found term is ignored',
    file: 'stores/objects.ts',
    find: keepsFound,
    replace: `const ignored = () => kept ?? { value: record, version: '' }
      const raised = await this.#raise(election, kept, record, call).catch(ignored)`,
    caughtBy: 'a found grant whose term cannot be kept for another reason is not shown',
  },
  {
    name: 'a process that may not keep terms finds its grant all the same',
    file: 'stores/objects.ts',
    find: '  throw new TermDenied(error.code,',
    replace: '  return undefined as never\n  throw new TermDenied(error.code,',
    also: [
      {
        file: 'stores/objects.ts',
        find: 'if (raised) return foundOf(record, raised)',
        replace: 'return foundOf(record, raised ?? kept)',
      },
    ],
    caughtBy: 'a process that may not keep terms is never elected',
  },
  {
    name: 'a read that fails for any reason shows nothing',
    file: 'stores/objects.ts',
    find: 'if (error instanceof TermDenied) return undefined',
    replace: 'if (error) return undefined',
    caughtBy: 'a found grant whose term cannot be kept for another reason is not shown',
  },
  {
    name: 'a call waits for as long as its client does',
    file: 'stores/bounded.ts',
    find: 'clock.setTimer(ms, () =>',
    replace: 'clock.setTimer(ms * 1_000, () =>',
    caughtBy: 'a call ends at its deadline, whatever the client does',
  },
]

const noProbe = { file: 'stores/s3.ts', find: 'await this.#probed()\n', replace: '\n' }

/** Every one of them must be noticed on a stand-in of S3. */
export const s3Mutations: readonly CloudMutation[] = [
  {
    name: 'an object is made whatever is there',
    file: 'stores/s3.ts',
    find: "{ IfNoneMatch: '*' }",
    replace: '{}',
    also: [noProbe],
    caughtBy: newElection,
  },
  {
    name: 'an object is replaced whatever its ETag',
    file: 'stores/s3.ts',
    find: '{ IfMatch: version }',
    replace: '{}',
    also: [noProbe],
    caughtBy: renewals,
  },
  {
    name: 'equal contents give equal versions',
    file: 'stores/record.ts',
    find: 'metadata, carry, ...unique })',
    replace: 'metadata, carry, renewedAt: 0, ...(unique && {}) })',
    caughtBy: 'every write creates a version that no earlier write had',
  },
  {
    name: 'nobody looks whether conditions are judged',
    ...noProbe,
    caughtBy: 'a server that ignores If-Match elects nobody',
  },
  {
    name: 'only one of the two conditions is tried',
    file: 'stores/s3.ts',
    find: 'creates && (await this.#write(key, text, noETag, signal)) === undefined',
    replace: 'creates',
    caughtBy: 'a server that ignores If-Match elects nobody',
  },
  {
    name: 'that something was made twice is not noticed',
    file: 'stores/s3.ts',
    find: '(await isThere()) || (await isThere())',
    replace: '(await isThere()) || true',
    caughtBy: 'a server that ignores If-None-Match elects nobody',
  },
  {
    name: 'conditions are tried at every write',
    file: 'stores/s3.ts',
    find: 'this.#probe = probe\n',
    replace: '\n',
    caughtBy: 'the probe runs once, and not for those who only look',
  },
  {
    name: 'an object that is gone makes a renewal an error',
    file: 'stores/s3.ts',
    find: "  return name === 'NoSuchKey'\n",
    replace: '  return false\n',
    caughtBy: 'a renewal of an object that is gone is an answer',
  },
  {
    name: 'a condition that the write before has broken counts as held',
    file: 'stores/s3.ts',
    find: '      if (isOvertaken(error)) return undefined\n',
    replace: '      if (isOvertaken(error)) return version ?? \'"none"\'\n',
    caughtBy: lostAnswer,
    also: [noProbe],
  },
  {
    name: 'a rule that deletes objects is overlooked',
    file: 'stores/s3/inspection.ts',
    find: 'folder.startsWith(prefix) || prefix.startsWith(folder)',
    replace: 'prefix.startsWith(folder)',
    caughtBy: 'what deletes objects, and what keeps them all, is found',
  },
]

/** Every one of them must be noticed on a stand-in of Google Cloud Storage. */
export const gcsMutations: readonly CloudMutation[] = [
  {
    name: 'an object is made whatever generation is there',
    file: 'stores/gcs.ts',
    find: "const condition = { ifGenerationMatch: version ?? '0' }",
    replace: 'const condition = version === undefined ? undefined : { ifGenerationMatch: version }',
    caughtBy: newElection,
  },
  {
    name: 'an object is replaced whatever its generation',
    file: 'stores/gcs.ts',
    find: "const condition = { ifGenerationMatch: version ?? '0' }",
    replace: "const condition = version === undefined ? { ifGenerationMatch: '0' } : undefined",
    caughtBy: renewals,
  },
  {
    name: 'a condition of Google Cloud Storage that does not hold is an error',
    file: 'stores/gcs.ts',
    find: 'if (response.status === 412) {',
    replace: 'if (response.status === 410) {',
    caughtBy: 'a condition that does not hold is an answer',
  },
  {
    name: 'writes follow each other at once',
    file: 'stores/gcs/pace.ts',
    find: 'Math.max(nowMs, before ?? nowMs)',
    replace: 'nowMs',
    caughtBy: 'writes of one object are more than a second apart',
  },
  {
    name: 'writes are a second apart, and not more',
    file: 'stores/gcs.ts',
    find: 'writeIntervalMs = 1_100',
    replace: 'writeIntervalMs = 1_000',
    caughtBy: 'writes of one object are more than a second apart',
  },
  {
    name: 'a write waits for its turn however late it gets',
    file: 'stores/gcs/pace.ts',
    find: 'if (waitMs >= timeoutMs) {',
    replace: 'if (waitMs === Infinity) {',
    caughtBy: 'no write waits for its turn beyond its deadline',
  },
  {
    name: 'a refused write uses up the turn',
    file: 'stores/gcs.ts',
    find: '        notWritten()\n',
    replace: '',
    caughtBy: 'a write that was refused does not use up the turn',
  },
  {
    name: 'a lease is granted that nobody can renew in time',
    file: 'stores/gcs.ts',
    find: 'if (claim.leaseDurationMs >= 3 * writeIntervalMs) return',
    replace: 'if (claim.leaseDurationMs > 0) return',
    caughtBy: 'a lease that cannot be renewed at that pace is refused',
  },
]
