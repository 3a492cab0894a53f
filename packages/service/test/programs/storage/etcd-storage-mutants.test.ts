import { AssertionError } from 'node:assert'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../../test/mutants/mutant.ts'
import { etcd, withSettings } from '../../../../../test/servers/etcd.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { conformanceCases } from '../../storage/conformance.ts'
import { etcdWorld } from '../../storage/etcd-world.ts'

const storage = { package: 'service', file: 'storage/server-storage.ts' } as const
const server = { package: 'service', file: 'storage/etcd-server.ts' } as const

/** Each must be noticed by the case that is named for it, or there by the storage or by etcd itself, which then says this. */
const mutations: readonly (Mutation & { readonly by: string; readonly says?: RegExp })[] = [
  {
    ...server,
    name: 'the head is not compared',
    find: 'compare: [{ key: this.#head, value: over }],',
    replace: 'compare: over ? [] : [],',
    by: 'an append that arrives after another was done changes nothing',
  },
  {
    ...storage,
    name: 'a batch is settled by reading',
    find: 'return this.#confirm(found, over)',
    replace: "return this.#server ? 'done' : this.#confirm(found, over)",
    by: 'the same batch again is confirmed by a write, not by a look',
  },
  {
    ...storage,
    name: 'a refused batch is taken for done',
    find: "return this.#confirm(found, over)\n    return 'fenced'",
    replace: "return this.#confirm(found, over)\n    return 'done'",
    by: 'once another took the head to a higher term, its predecessor is fenced',
  },
  {
    ...storage,
    name: 'a batch that is there is taken for fenced',
    find: 'if (isOpen && isSameHead(found.head, batch.head)) return',
    replace: 'if (!found.head) return',
    by: 'the same batch again is done, and changes nothing',
  },
  {
    ...storage,
    name: 'pages of different moments are loaded as one',
    find: 'if (!isSameHead(this.#headIn(page.head).head, head)) throw overtaken()',
    replace: 'if (!page || !head) throw overtaken()',
    by: 'what is loaded while another appends is of one moment, or there is an error',
  },
  {
    ...server,
    name: 'only the first page is loaded',
    find: 'next: next && JSON.stringify(next)',
    replace: 'next: next && JSON.stringify(next) && undefined',
    by: 'of many groups each is found once',
  },
  {
    ...server,
    name: 'what lies behind a part is taken for loaded',
    find: 'if (end === this.#end) return undefined',
    replace: 'return undefined',
    by: 'of many groups each is found once',
  },
  {
    ...server,
    name: 'a part begins behind where the one before ended',
    find: 'return [end, wider',
    replace: 'return [`${end}2`, wider',
    by: 'of many groups each is found once',
  },
  {
    ...server,
    name: 'the first head is written without comparing',
    find: 'compare: [{ key: this.#head, modRevision: absentRevision }],',
    replace: 'compare: absentRevision ? [] : [],',
    by: 'of several that find no data one begins them, however late another comes',
  },
  {
    ...server,
    name: 'names are used as they are',
    find: 'put: this.#groups + encodeURIComponent(id)',
    replace: 'put: this.#groups + id',
    by: 'any name is the name of a group of its own',
    says: /the record of group "a\/b" is damaged/,
  },
  {
    ...storage,
    name: 'another history is not noticed',
    find: 'isComplete = isSame ||',
    replace: 'isComplete = isSame || head.incarnation !== incarnation ||',
    by: 'the same data in another history of the server are noticed',
  },
  {
    ...server,
    name: 'a check reads',
    find: 'success: [put]',
    replace: 'success: put ? [{ get: this.#head }] : []',
    by: 'a check is a write',
  },
  {
    ...server,
    name: 'a batch may be larger than etcd takes',
    find: 'groups: 120, bytes',
    replace: 'groups: 128, bytes',
    by: 'a batch is done that has as much in it as the storage says',
    says: /too many operations/,
  },
]

interface Mutant {
  readonly storage: typeof import('../../../src/storage/server-storage.ts')
  readonly server: typeof import('../../../src/storage/etcd-server.ts')
}

describeWith(etcd, 'on etcd it is noticed that', (etcdAt) => {
  let other: RunningServer
  beforeAll(async () => {
    other = await start(withSettings(etcd, { 'initial-cluster-token': 'another' }))
  })
  afterAll(() => other.stop())

  test.for(mutations)('$name', async ({ by, says, ...mutation }) => {
    const mutant = await loadMutant<Mutant>(mutation, {
      storage: '../../service/src/storage/server-storage.ts',
      server: '../../service/src/storage/etcd-server.ts',
    })
    const found = conformanceCases.find(({ name }) => name === by)
    expect(found, by).toBeDefined()
    const world = await etcdWorld({ ...mutant.server, ...mutant.storage }, etcdAt(), () => other)
    await expect(found?.run(world)).rejects.toThrow(says ?? AssertionError)
  })
})
