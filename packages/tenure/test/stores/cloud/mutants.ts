import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of a cloud store, and the check that must catch it. */
export interface CloudMutation extends Mutation {
  /** A case of the conformance suite, or a check of the store next to this file. */
  readonly caughtBy: string
}

const newElection = 'exactly one of two concurrent creates of a record wins'
const renewals = 'exactly one of two concurrent renewals of a version wins'
const keepsFound = 'const raised = await this.#raise(election, kept, record, call).catch(termDenied)'
const lostAnswer = 'a write that the client repeats after a lost answer is one grant'

/** An emulator of DynamoDB must reveal every one of these. */
export const dynamodbMutations: readonly CloudMutation[] = [
  {
    name: 'an item is created even if it exists',
    file: 'stores/dynamodb/index.ts',
    find: "ConditionExpression: 'attribute_not_exists(#id)'",
    replace: "ConditionExpression: 'attribute_not_exists(#id) or attribute_exists(#id)'",
    caughtBy: newElection,
  },
  {
    name: 'an item is overwritten without comparing its version',
    file: 'stores/dynamodb/index.ts',
    find: "ConditionExpression: '#version = :version'",
    replace: "ConditionExpression: '#version <> :version or #version = :version'",
    caughtBy: renewals,
  },
  {
    name: 'a write keeps the version',
    file: 'stores/dynamodb/index.ts',
    find: 'const next = this.#clock.randomId()',
    replace: 'const next = election',
    caughtBy: 'every write creates a version that no earlier write had',
  },
  {
    name: 'a lagging replica may answer a read',
    file: 'stores/dynamodb/index.ts',
    find: 'Key: key, ConsistentRead: true }',
    replace: 'Key: key, ConsistentRead: false }',
    caughtBy: 'every read is strongly consistent',
  },
  {
    name: 'a failed condition of DynamoDB is reported as an error',
    file: 'stores/dynamodb/index.ts',
    find: 'if (isOvertaken(error)) return undefined',
    replace: '',
    caughtBy: 'a failed condition is a refusal, not an error',
  },
  {
    name: 'an item without a record counts as missing',
    file: 'stores/dynamodb/index.ts',
    find: 'return item && valueOf(item)',
    replace: "return item?.['content'] && valueOf(item)",
    caughtBy: 'acquire does not overwrite an item of another program',
    also: [
      {
        file: 'stores/dynamodb/index.ts',
        find: "ConditionExpression: 'attribute_not_exists(#id)'",
        replace: "ConditionExpression: 'attribute_not_exists(#id) or attribute_not_exists(version)'",
      },
    ],
  },
  {
    name: 'the highest term is stored only in the record',
    file: 'store-kit/two-object-store.ts',
    find: 'const kept = await this.#keep(election, over, record, call)',
    replace: "const kept = { value: record, version: 'none' }",
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a record that arrives after a deleted grant is shown',
    file: 'store-kit/two-object-store.ts',
    find: 'record: isLate(record, value) ? undefined : record,',
    replace: 'record,',
    caughtBy: 'a claim that arrives after another grant was deleted is not granted',
  },
  {
    name: 'a claim that arrives after a deleted grant is granted',
    file: 'store-kit/two-object-store.ts',
    find: 'if (isLate(record, kept?.value)) return undefined',
    replace: '',
    caughtBy: 'a claim that arrives after another grant was deleted is not granted',
  },
  {
    name: 'the recorded term does not identify its attempt',
    file: 'store-kit/two-object-store.ts',
    find: '|| (record.term === kept.term && record.attempt !== kept.attempt)',
    replace: '',
    caughtBy: 'a claim that arrives after another grant was deleted is not granted',
  },
  {
    name: 'a grant is shown before its term is recorded',
    file: 'store-kit/two-object-store.ts',
    find: 'if (!record || isRecorded(record, kept)) return foundOf(record, kept)',
    replace: 'if (record || !record) return foundOf(record, kept)',
    caughtBy: 'a grant is not shown before its term is recorded',
  },
  {
    name: 'a process that finds a grant also records its duration',
    file: 'store-kit/two-object-store.ts',
    find: keepsFound,
    replace: 'const raised = await this.#keep(election, foundOf(undefined, kept), record, call)',
    caughtBy: 'a process that finds a grant late does not shorten the recorded lease duration',
  },
  {
    name: 'every failure to record a found term is ignored',
    file: 'store-kit/two-object-store.ts',
    find: keepsFound,
    replace: `const ignored = () => kept ?? { value: record, version: '' }
      const raised = await this.#raise(election, kept, record, call).catch(ignored)`,
    caughtBy: 'a found grant is not shown when recording its term fails for a reason other than a missing permission',
  },
  {
    name: 'a process that may not record terms still finds its grant',
    file: 'store-kit/two-object-store.ts',
    find: '  throw new TermDenied(error.code,',
    replace: '  return undefined as never\n  throw new TermDenied(error.code,',
    also: [
      {
        file: 'store-kit/two-object-store.ts',
        find: 'if (raised) return foundOf(record, raised)',
        replace: 'return foundOf(record, raised ?? kept)',
      },
    ],
    caughtBy: 'a process that may not record terms is never elected',
  },
  {
    name: 'a read that fails for any reason returns nothing',
    file: 'store-kit/two-object-store.ts',
    find: 'if (error instanceof TermDenied) return undefined',
    replace: 'if (error) return undefined',
    caughtBy: 'a found grant is not shown when recording its term fails for a reason other than a missing permission',
  },
  {
    name: 'a call waits as long as its client does',
    file: 'store-kit/call-deadline.ts',
    find: '{ clock, timeoutMs, late: (ms) => lateAnswer(service, ms) }',
    replace: '{ clock, timeoutMs: timeoutMs * 1_000, late: (ms) => lateAnswer(service, ms) }',
    caughtBy: 'a call ends at its deadline even if the client ignores it',
  },
]

const noProbe = { file: 'stores/s3/index.ts', find: 'await this.#probed()\n', replace: '\n' }

/** An emulator of S3 must reveal every one of these. */
export const s3Mutations: readonly CloudMutation[] = [
  {
    name: 'an object is created even if it exists',
    file: 'stores/s3/index.ts',
    find: "{ IfNoneMatch: '*' }",
    replace: '{}',
    also: [noProbe],
    caughtBy: newElection,
  },
  {
    name: 'an object is overwritten without comparing its ETag',
    file: 'stores/s3/index.ts',
    find: '{ IfMatch: version }',
    replace: '{}',
    also: [noProbe],
    caughtBy: renewals,
  },
  {
    name: 'equal contents have equal versions',
    file: 'store-kit/record.ts',
    find: 'metadata, successor, checkpoint, ...unique })',
    replace: 'metadata, successor, checkpoint, renewedAt: 0, ...(unique && {}) })',
    caughtBy: 'every write creates a version that no earlier write had',
  },
  {
    name: 'conditional writes are not probed',
    ...noProbe,
    caughtBy: 'acquire fails on a server that ignores If-Match',
  },
  {
    name: 'only one of the two conditions is probed',
    file: 'stores/s3/index.ts',
    find: 'creates && (await this.#write(key, text, noETag, signal)) === undefined',
    replace: 'creates',
    caughtBy: 'acquire fails on a server that ignores If-Match',
  },
  {
    name: 'the probe ignores that an object was created twice',
    file: 'stores/s3/index.ts',
    find: '(await isThere()) || (await isThere())',
    replace: '(await isThere()) || true',
    caughtBy: 'acquire fails on a server that ignores If-None-Match',
  },
  {
    name: 'every write probes conditional writes',
    file: 'stores/s3/index.ts',
    find: 'this.#probe = probe\n',
    replace: '\n',
    caughtBy: 'the store probes conditional writes once, and never for reads',
  },
  {
    name: 'renewing a deleted object is reported as an error',
    file: 'stores/s3/index.ts',
    find: "  return name === 'NoSuchKey'\n",
    replace: '  return false\n',
    caughtBy: 'renewing a deleted object is refused without an error',
  },
  {
    name: 'a failed condition counts as success',
    file: 'stores/s3/index.ts',
    find: '      if (isOvertaken(error)) return undefined\n',
    replace: '      if (isOvertaken(error)) return version ?? \'"none"\'\n',
    caughtBy: lostAnswer,
    also: [noProbe],
  },
  {
    name: 'a lifecycle rule that deletes objects is overlooked',
    file: 'stores/s3/diagnostics.ts',
    find: 'folder.startsWith(prefix) || prefix.startsWith(folder)',
    replace: 'prefix.startsWith(folder)',
    caughtBy: 'inspect reports rules that delete objects, and versioning that keeps them all',
  },
]

const conditions = "version === undefined ? { ifNoneMatch: '*' } : { ifMatch: version }"

/** An emulator of Azure Blob Storage must reveal every one of these. */
export const azureBlobMutations: readonly CloudMutation[] = [
  {
    name: 'a blob is created even if it exists',
    file: 'stores/azure-blob/index.ts',
    find: conditions,
    replace: 'version === undefined ? {} : { ifMatch: version }',
    caughtBy: newElection,
  },
  {
    name: 'a blob is overwritten without comparing its ETag',
    file: 'stores/azure-blob/index.ts',
    find: conditions,
    replace: "version === undefined ? { ifNoneMatch: '*' } : {}",
    caughtBy: renewals,
  },
  {
    name: 'a failed condition of Azure is reported as an error',
    file: 'stores/azure-blob/index.ts',
    find: '/^(ConditionNotMet|BlobAlreadyExists|BlobNotFound)$/',
    replace: '/^(BlobAlreadyExists|BlobNotFound)$/',
    caughtBy: 'renewing a deleted blob is refused without an error',
  },
  {
    name: 'a write that Azure repeats is reported as an error',
    file: 'stores/azure-blob/index.ts',
    find: '/^(ConditionNotMet|BlobAlreadyExists|BlobNotFound)$/',
    replace: '/^(ConditionNotMet|BlobNotFound)$/',
    caughtBy: lostAnswer,
  },
  {
    name: 'every conflict counts as a failed condition',
    file: 'stores/azure-blob/index.ts',
    find: '/^(ConditionNotMet|BlobAlreadyExists|BlobNotFound)$/',
    replace: '/^(ConditionNotMet|BlobAlreadyExists|BlobNotFound|LeaseIdMissing)$/',
    caughtBy: 'a blob that another program has leased is an error, not a refusal',
  },
  {
    name: 'a failed condition counts as success',
    file: 'stores/azure-blob/index.ts',
    find: '.test(azureCodeOf(error))) return undefined\n    throw error\n  }\n}\n',
    replace: ".test(azureCodeOf(error))) return 'none' as T\n    throw error\n  }\n}\n",
    caughtBy: renewals,
  },
  {
    name: 'forget removes a blob without comparing its ETag',
    file: 'stores/azure-blob/index.ts',
    find: 'conditions: { ifMatch: version } })',
    replace: 'conditions: {} })',
    caughtBy: 'forget does not remove a record that was granted after it was read',
  },
]

/** An emulator of Google Cloud Storage must reveal every one of these. */
export const gcsMutations: readonly CloudMutation[] = [
  {
    name: 'an object is created even if it exists',
    file: 'stores/gcs/index.ts',
    find: "const condition = { ifGenerationMatch: version ?? '0' }",
    replace: 'const condition = version === undefined ? undefined : { ifGenerationMatch: version }',
    caughtBy: newElection,
  },
  {
    name: 'an object is overwritten without comparing its generation',
    file: 'stores/gcs/index.ts',
    find: "const condition = { ifGenerationMatch: version ?? '0' }",
    replace: "const condition = version === undefined ? { ifGenerationMatch: '0' } : undefined",
    caughtBy: renewals,
  },
  {
    name: 'a failed condition of Google Cloud Storage is reported as an error',
    file: 'stores/gcs/index.ts',
    find: 'if (response.status === 412) {',
    replace: 'if (response.status === 410) {',
    caughtBy: 'a failed condition is a refusal, not an error',
  },
  {
    name: 'writes of one object are not spaced out',
    file: 'stores/gcs/write-limiter.ts',
    find: 'Math.max(nowMs, before ?? nowMs)',
    replace: 'nowMs',
    caughtBy: 'writes of one object are more than a second apart',
  },
  {
    name: 'writes of one object are exactly a second apart',
    file: 'stores/gcs/index.ts',
    find: 'writeIntervalMs = 1_100',
    replace: 'writeIntervalMs = 1_000',
    caughtBy: 'writes of one object are more than a second apart',
  },
  {
    name: 'a write waits for its turn beyond its deadline',
    file: 'stores/gcs/write-limiter.ts',
    find: 'if (waitMs >= timeoutMs) {',
    replace: 'if (waitMs === Infinity) {',
    caughtBy: 'a write does not wait for its turn beyond its deadline',
  },
  {
    name: 'a refused write delays the next one',
    file: 'stores/gcs/index.ts',
    find: '        notWritten()\n',
    replace: '',
    caughtBy: 'a refused write does not delay the next one',
  },
  {
    name: 'a lease that is too short to be renewed in time is granted',
    file: 'stores/gcs/index.ts',
    find: 'if (claim.leaseDurationMs >= 3 * writeIntervalMs) return',
    replace: 'if (claim.leaseDurationMs > 0) return',
    caughtBy: 'acquire refuses a lease that is too short to be renewed at the write interval',
  },
]
