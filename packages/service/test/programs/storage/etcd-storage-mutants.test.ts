import { AssertionError } from 'node:assert'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../../test/mutants/mutant.ts'
import { etcd, withSettings } from '../../../../../test/servers/etcd.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { conformanceCases } from '../../storage/conformance.ts'
import { etcdWorld } from '../../storage/etcd-world.ts'

const storage = { package: 'service', file: 'storage/etcd-storage.ts' } as const

/** Each must be noticed by the case that is named for it, or there by the storage or by etcd itself, which then says this. */
const mutations: readonly (Mutation & { readonly by: string; readonly says?: RegExp })[] = [
  {
    ...storage,
    name: 'the head is not compared',
    find: 'compare: [{ key: this.#headKey, value: over }],',
    replace: 'compare: over ? [] : [],',
    by: 'an append that arrives after another was done changes nothing',
  },
  {
    ...storage,
    name: 'a batch is settled by reading',
    find: 'return this.#confirm(found)',
    replace: "return this.#headKey ? 'done' : this.#confirm(found)",
    by: 'the same batch again is confirmed by a write, not by a look',
  },
  {
    ...storage,
    name: 'a refused batch is taken for done',
    find: "return this.#confirm(found)\n    return 'fenced'",
    replace: "return this.#confirm(found)\n    return 'done'",
    by: 'once another took the head to a higher term, its predecessor is fenced',
  },
  {
    ...storage,
    name: 'a batch that another followed is confirmed',
    find: "(await this.#swap(text, { head, groups: [] })) ? 'fenced' : 'done'",
    replace: "(await this.#swap(text, { head, groups: [] })) ? 'done' : 'fenced'",
    by: 'the same batch again is done, and changes nothing',
  },
  {
    ...storage,
    name: 'pages of different moments are loaded as one',
    find: 'if (!isSameHead(found.head, head)) throw overtaken()',
    replace: 'if (!found || !head) throw overtaken()',
    by: 'what is loaded while another appends is of one moment, or there is an error',
  },
  {
    ...storage,
    name: 'only the first page is loaded',
    find: 'const last = more ? keys.at(-1) : undefined',
    replace: 'const last = more && !keys.length ? keys.at(-1) : undefined',
    by: 'of many groups each is found once',
  },
  {
    ...storage,
    name: 'the first head is written without comparing',
    find: 'compare: [{ key: this.#headKey, modRevision: absentRevision }],',
    replace: 'compare: absentRevision ? [] : [],',
    by: 'of several that find no data one begins them, however late another comes',
  },
  {
    ...storage,
    name: 'names are used as they are',
    find: 'put: this.#groups + encodeURIComponent(id)',
    replace: 'put: this.#groups + id',
    by: 'any name is the name of a group of its own',
    says: /the record of group "a\/b" is damaged/,
  },
  {
    ...storage,
    name: 'another history is not noticed',
    find: 'isComplete: incarnation === head.incarnation',
    replace: 'isComplete: head.incarnation.length > 0',
    by: 'the same data in another history of the server are noticed',
  },
  {
    ...storage,
    name: 'a check reads',
    find: 'success: [{ put: this.#checkKey, value }]',
    replace: 'success: value ? [this.#getHead] : []',
    by: 'a check is a write',
  },
  {
    ...storage,
    name: 'a batch may be larger than etcd takes',
    find: 'groups: 120, bytes',
    replace: 'groups: 128, bytes',
    by: 'a batch is done that has as much in it as the storage says',
    says: /too many operations/,
  },
]

describeWith(etcd, 'on etcd it is noticed that', (server) => {
  let other: RunningServer
  beforeAll(async () => {
    other = await start(withSettings(etcd, { 'initial-cluster-token': 'another' }))
  })
  afterAll(() => other.stop())

  test.for(mutations)('$name', async ({ by, says, ...mutation }) => {
    const mutant = await loadMutant<{ storage: typeof import('../../../src/storage/etcd-storage.ts') }>(mutation, {
      storage: '../../service/src/storage/etcd-storage.ts',
    })
    const found = conformanceCases.find(({ name }) => name === by)
    expect(found, by).toBeDefined()
    const world = await etcdWorld(mutant.storage.EtcdStorage, server(), () => other)
    await expect(found?.run(world)).rejects.toThrow(says ?? AssertionError)
  })
})
