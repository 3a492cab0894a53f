import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { relayMutants } from '../packages/multicluster/test/simulation/relay-mutants.ts'
import { storeConformance } from '../packages/tenure/src/conformance/index.ts'
import { memoryStore } from '../packages/tenure/src/index.ts'
import { faultKinds } from '../packages/tenure/src/simulation/index.ts'
import { storeMutations } from '../packages/tenure/test/conformance/store-mutants.ts'
import { logMutations } from '../packages/tenure/test/log/mutants.ts'
import { electorMutations } from '../packages/tenure/test/elector/elector-mutants.ts'
import { lockMutations } from '../packages/tenure/test/multicluster/lock-mutants.ts'
import { powerMutants } from '../packages/tenure/test/programs/stores/file/power-mutants.ts'
import { engineMutants } from '../packages/tenure/test/simulation/engine-mutants.ts'
import {
  etcdClusterMutations,
  etcdHistoryMutations,
  etcdMutations,
} from '../packages/tenure/test/stores/etcd-mutants.ts'
import { dynamodbMutations, gcsMutations, s3Mutations } from '../packages/tenure/test/stores/cloud/mutants.ts'
import { kubernetesMutations } from '../packages/tenure/test/stores/kubernetes-mutants.ts'
import { postgresFailoverMutations, postgresMutations } from '../packages/tenure/test/stores/postgres-mutants.ts'
import { redisMutations } from '../packages/tenure/test/stores/redis-mutants.ts'
import { serviceMutations } from '../packages/tenure/test/stores/service/mutants.ts'
import { fairnessMutations } from '../packages/service/test/fairness/mutants.ts'
import { groupMutations } from '../packages/service/test/groups/group-mutants.ts'
import { appenderMutants } from '../packages/service/test/simulation/appender/mutants.ts'
import { replicaMutants } from '../packages/service/test/simulation/replica-mutants.ts'
import { readDocument, root } from './documents.ts'
import { checkedJobMutants, jobMutants } from './jobs/mutants.ts'

const document = readDocument('docs/explanation/robustness.md')

const files = new Map(
  [...document.matchAll(/^\| `([\w-]+)` \| (\S+\.ts) \|$/gm)].map((row) => [row[1] ?? '', row[2] ?? '']),
)

interface Citation {
  readonly file: string
  readonly name: string
}

/** Every `file`: "test", "test" of a text. */
function findCitations(text: string): Citation[] {
  return [...text.matchAll(/`([\w-]+)`: ("[^"]+"(?:, "[^"]+")*)/g)].flatMap((match) =>
    quoted(match[2]).map((name) => ({ file: match[1] ?? '', name })),
  )
}

function quoted(text = ''): string[] {
  return [...text.matchAll(/["`]([^"`]+)["`]/g)].map((match) => match[1] ?? '')
}

const parsed = new Map<string, RegExp[]>()

/** Every text in a test file that can be the name of a test, with its gaps, as patterns. */
function namesIn(path: string): RegExp[] {
  const known = parsed.get(path)
  if (known) return known
  const source = ts.createSourceFile(path, readFileSync(join(root, path), 'utf8'), ts.ScriptTarget.Latest, true)
  const names: RegExp[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node)) names.push(exactly(node.text))
    if (ts.isTemplateExpression(node)) {
      names.push(exactly(node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)))
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  parsed.set(path, names)
  return names
}

function exactly(...parts: string[]): RegExp {
  return new RegExp(`^${parts.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.+')}$`)
}

const conformanceCases = storeConformance(() => ({ store: memoryStore() })).map(({ name }) => name)

function exists({ file, name }: Citation): boolean {
  const path = files.get(file)
  if (path === undefined) return false
  if (file === 'conformance') return conformanceCases.includes(name)
  return namesIn(path).some((pattern) => pattern.test(name))
}

test('every test that docs/explanation/robustness.md cites exists', () => {
  const citations = findCitations(document)
  expect(citations.length).toBeGreaterThan(60)
  expect(citations.filter((citation) => !exists(citation))).toEqual([])
})

test('every file that docs/explanation/robustness.md names exists', () => {
  const named = [...document.matchAll(/(?:packages|test)\/[\w/.-]+\.ts/g)].map(([path]) => path)
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([])
})

test('every fault and every mutant that a row of docs/explanation/robustness.md names exists', () => {
  const faults = [...document.matchAll(/\bfaults? ((?:`[\w-]+`(?:, )?)+)/g)].flatMap((match) => quoted(match[1]))
  const mutants = [...document.matchAll(/\bmutants? ((?:"[^"]+"(?:, )?)+)/g)].flatMap((match) => quoted(match[1]))
  expect(faults.length).toBeGreaterThan(10)
  expect(faults.filter((kind) => !(faultKinds as readonly string[]).includes(kind))).toEqual([])
  expect(mutants.length).toBeGreaterThan(20)
  const known = [...engineMutants, ...electorMutations].map(({ name }) => name)
  expect(mutants.filter((name) => !known.includes(name))).toEqual([])
})

test('every test that docs/explanation/comparison.md names exists', () => {
  const page = readDocument('docs/explanation/comparison.md')
  const [, ...rows] = [...page.matchAll(/^\| [^|]+ \| [^|]+ \| ([^|]+) \|$/gm)]
  expect(rows.length).toBeGreaterThan(10)
  const names = namesIn('packages/tenure/test/peers.test.ts')
  const missing = rows.map((row) => row[1] ?? '').filter((name) => !names.some((pattern) => pattern.test(name)))
  expect(missing).toEqual([])
})

test('docs/explanation/robustness.md lists all mutants, and no other', () => {
  const listed = (heading: string) => {
    const [, section = ''] = document.split(`\n## ${heading}\n`)
    return [...(section.split('\n## ')[0] ?? '').matchAll(/^- (.+)$/gm)].map((match) => match[1] ?? '')
  }
  expect(listed('Mutants of the engine').toSorted()).toEqual(engineMutants.map(({ name }) => name).toSorted())
  const ofJobs = [...jobMutants, ...checkedJobMutants].map(({ name }) => name)
  expect(listed('Mutants of jobs').toSorted()).toEqual(ofJobs.toSorted())
  const ofElector = electorMutations.map(({ name }) => name)
  expect(listed('Mutants of the elector').toSorted()).toEqual(ofElector.toSorted())
  expect(listed('Mutants of the stores').toSorted()).toEqual(storeMutations.map(({ name }) => name).toSorted())
  expect(listed('Mutants of the file store').toSorted()).toEqual(powerMutants.map(({ name }) => name).toSorted())
  const onKubernetes = kubernetesMutations.map(({ name }) => name)
  expect(listed('Mutants of the Kubernetes store').toSorted()).toEqual(onKubernetes.toSorted())
  const onEtcd = [...etcdMutations, ...etcdClusterMutations, ...etcdHistoryMutations].map(({ name }) => name)
  expect(listed('Mutants of the etcd store').toSorted()).toEqual(onEtcd.toSorted())
  expect(listed('Mutants of the log').toSorted()).toEqual(logMutations.map(({ name }) => name).toSorted())
  const ofLock = lockMutations.map(({ name }) => name)
  expect(listed('Mutants of the lock across clusters').toSorted()).toEqual(ofLock.toSorted())
  const ofRelay = relayMutants.map(({ name }) => name)
  expect(listed('Mutants of the relay across clusters').toSorted()).toEqual(ofRelay.toSorted())
  const ofReplicas = replicaMutants.map(({ name }) => name)
  expect(listed('Mutants of the replicas').toSorted()).toEqual(ofReplicas.toSorted())
  const ofAppender = appenderMutants.map(({ name }) => name)
  expect(listed('Mutants of the appender').toSorted()).toEqual(ofAppender.toSorted())
  const ofFairness = fairnessMutations.map(({ name }) => name)
  expect(listed('Mutants of the fair service').toSorted()).toEqual(ofFairness.toSorted())
  const onPostgres = [...postgresMutations, ...postgresFailoverMutations].map(({ name }) => name)
  expect(listed('Mutants of the PostgreSQL store').toSorted()).toEqual(onPostgres.toSorted())
  const onRedis = redisMutations.map(({ name }) => name)
  expect(listed('Mutants of the Redis store').toSorted()).toEqual(onRedis.toSorted())
  const inClouds = [...dynamodbMutations, ...s3Mutations, ...gcsMutations].map(({ name }) => name)
  expect(listed('Mutants of the stores in the clouds').toSorted()).toEqual(inClouds.toSorted())
  const ofGroups = groupMutations.map(({ name }) => name)
  expect(listed('Mutants of the groups').toSorted()).toEqual(ofGroups.toSorted())
  const ofService = serviceMutations.map(({ name }) => name)
  expect(listed('Mutants of the service store').toSorted()).toEqual(ofService.toSorted())
})

test('a citation of something that is not there is found', () => {
  const planted =
    '`elector-time`: "leadership survives a sleep that leaves time on the lease", "flies"; ' +
    '`nowhere`: "leadership survives a sleep that leaves time on the lease"'
  expect(findCitations(planted).filter((citation) => !exists(citation))).toEqual([
    { file: 'elector-time', name: 'flies' },
    { file: 'nowhere', name: 'leadership survives a sleep that leaves time on the lease' },
  ])
  expect(exists({ file: 'chaos', name: 'lead one at a time for 60 s, lose no write, and clean up' })).toBe(true)
  expect(exists({ file: 'conformance', name: 'no such promise' })).toBe(false)
})
