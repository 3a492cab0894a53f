import { AssertionError } from 'node:assert'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { etcd, withSettings } from '../../../../test/servers/etcd.ts'
import { start, type RunningServer } from '../../../../test/servers/server.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { conformanceCases } from './conformance.ts'
import { followerCases } from './follower-conformance.ts'
import { etcdWorld } from './etcd-storage-fixture.ts'

const storage = { package: 'service', file: 'storage/server-storage.ts' } as const
const server = { package: 'service', file: 'storage/etcd-server.ts' } as const
const ranges = { package: 'service', file: 'storage/key-ranges.ts' } as const

/**
 * The case named by `by` must catch the mutant with an assertion. With `says`, the storage or etcd itself throws this
 * error instead.
 */
const mutations: readonly (Mutation & { readonly by: string; readonly says?: RegExp })[] = [
  {
    ...server,
    name: 'the head is not compared',
    find: 'compare: [{ key: this.#head, value: over }],',
    replace: 'compare: over ? [] : [],',
    by: 'an append that arrives after another one was done changes nothing',
  },
  {
    ...storage,
    name: 'a batch is settled by a read instead of a write',
    find: 'return this.#confirm(found, over)',
    replace: "return this.#server ? 'done' : this.#confirm(found, over)",
    by: 'a repeated batch is confirmed by a write, not by a read',
  },
  {
    ...storage,
    name: 'a refused batch counts as done',
    find: "return this.#confirm(found, over)\n    return 'fenced'",
    replace: "return this.#confirm(found, over)\n    return 'done'",
    by: 'a former active replica is fenced once another one took the head to a higher term',
  },
  {
    ...storage,
    name: 'a stored batch counts as fenced',
    find: 'if (isOpen && isSameHead(found.head, batch.head)) return',
    replace: 'if (!found.head) return',
    by: 'a repeated batch is done and changes nothing',
  },
  {
    ...storage,
    name: 'pages of different moments are loaded as one',
    find: 'if (!isSameHead(this.#headIn(page.head).head, head)) throw overtaken()',
    replace: 'if (!page || !head) throw overtaken()',
    by: "a load during another process's append returns the data of one moment or fails",
  },
  {
    ...server,
    name: 'only the first page is loaded',
    find: 'next: next && JSON.stringify(next)',
    replace: 'next: next && JSON.stringify(next) && undefined',
    by: 'each of many groups is loaded once',
  },
  {
    ...ranges,
    name: 'everything after a range counts as loaded',
    find: 'if (end === this.#end) return undefined',
    replace: 'return undefined',
    by: 'each of many groups is loaded once',
  },
  {
    ...ranges,
    name: 'a range begins after the end of the previous one',
    find: 'return [end, this',
    replace: 'return [`${end}2`, this',
    by: 'each of many groups is loaded once',
  },
  {
    ...server,
    name: 'the first head is written without comparing',
    find: 'compare: [{ key: this.#head, modRevision: absentRevision }],',
    replace: 'compare: absentRevision ? [] : [],',
    by: 'only one of several processes initializes the data, however late another one arrives',
  },
  {
    ...server,
    name: 'group names are not encoded',
    find: 'return this.#groups + encodeURIComponent(id)',
    replace: 'return this.#groups + id',
    by: 'each distinct name is a distinct group',
    says: /the record of group "a\/b" is damaged/,
  },
  {
    ...storage,
    name: 'another history of the server is not noticed',
    find: 'isComplete = isSame ||',
    replace: 'isComplete = isSame || head.incarnation !== incarnation ||',
    by: 'a storage detects that its data was copied to a server with another history',
  },
  {
    ...server,
    name: 'a check reads',
    find: 'success: [{ put: key, value }]',
    replace: 'success: value ? [{ get: key }] : []',
    by: 'a check writes to the storage',
  },
  {
    ...server,
    name: 'a batch may exceed the limit of etcd',
    find: 'groups: 120, bytes',
    replace: 'groups: 128, bytes',
    by: 'a batch of the maximum size is written',
    says: /too many operations/,
  },
  {
    ...server,
    name: 'a batch is not listed',
    find: 'if (batch) puts.push(',
    replace: 'if (batch && !batch) puts.push(',
    by: 'each batch is listed with the ids of its groups and the batch that it followed',
  },
  {
    ...storage,
    name: 'the confirmation of a batch lists it without its groups',
    find: 'const found = await this.#swap(text, { head, groups: [] })',
    replace: `const { seq, batch } = head
    const found = await this.#swap(text, { head, groups: [] }, { seq, batch, after: '', ids: [] })`,
    by: 'a repeated batch is still listed with its groups',
  },
]

interface Mutant {
  readonly storage: typeof import('../../src/storage/server-storage.ts')
  readonly server: typeof import('../../src/storage/etcd-server.ts')
}

describeWith(etcd, 'mutants of the etcd storage', (etcdAt) => {
  let other: RunningServer
  beforeAll(async () => {
    other = await start(withSettings(etcd, { 'initial-cluster-token': 'another' }))
  })
  afterAll(() => other.stop())

  test.for(mutations)('the conformance cases catch the mutant "$name" on etcd', async ({ by, says, ...mutation }) => {
    const mutant = await loadMutant<Mutant>(mutation, {
      storage: '../../service/src/storage/server-storage.ts',
      server: '../../service/src/storage/etcd-server.ts',
    })
    const found = [...conformanceCases, ...followerCases].find(({ name }) => name === by)
    expect(found, by).toBeDefined()
    const world = await etcdWorld({ ...mutant.server, ...mutant.storage }, etcdAt(), () => other)
    await expect(found?.run(world)).rejects.toThrow(says ?? AssertionError)
  })
})
