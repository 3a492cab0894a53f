/** The requirements for every storage of groups. See src/storage/storage.ts. */
import { deepStrictEqual, notStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import type { Batch, GroupRecord, StoredGroup, Storage, StorageHead } from '../../src/storage/storage.ts'
import { batchAfter, read } from './data-directories.ts'

/** A storage without data, and the means to open it again. Functions that a storage does not support are left out. */
export interface StorageWorld {
  readonly storage: Storage
  /** Closes the storage and opens the same data again. */
  reopen(): Promise<Storage>
  /** Opens the same data in another process at the same time. */
  another?(): Promise<Storage>
  /** Starts a process that initializes new data. Its write arrives only when `deliver` is called. */
  beginLate?(): Promise<{ open(): Promise<Storage>; deliver(): Promise<unknown> }>
  /** Returns a number that increases with every durable write. */
  writes?(): Promise<number>
  /** Opens the same data in another process, behind a network that can be made to fail. */
  faulty?(): Promise<FaultyStorage>
  /** Opens a copy of the data on a server with a different history, as after a restored backup. */
  replaced?(): Promise<Storage>
}

/**
 * The fate of a batch: `lost` does not arrive, `unheard` takes effect without an answer, `late` arrives when {@link
 * FaultyStorage.deliver} is called, and only a part of `torn` arrives. None of them is answered.
 */
export type Fault = 'lost' | 'unheard' | 'late' | 'torn'

export interface FaultyStorage {
  readonly storage: Storage
  /** Sets the fault from now on. Without a fault, the network works. */
  suffer(fault?: Fault): void
  /** Delivers late batches, and resolves when they have taken effect. */
  deliver(): Promise<unknown>
}

export interface ConformanceCase {
  readonly name: string
  /** The abilities that the case needs. */
  readonly needs?: readonly (keyof StorageWorld)[]
  run(world: Required<StorageWorld>): Promise<void>
}

/** The cases that apply to a world with these abilities. */
export function casesFor(abilities: readonly (keyof StorageWorld)[]): readonly ConformanceCase[] {
  return conformanceCases.filter(({ needs = [] }) => needs.every((need) => abilities.includes(need)))
}

const lease: GroupRecord = {
  term: 3,
  leaseTerm: 2,
  node: 'node-1',
  attempt: 'a',
  ttl: 5_000,
  at: 1_700_000_000_000,
  meta: '{"zone":"a \\"b\\"","n":[1,2]}',
  checkpoint: 'seite 7 – ünïcode',
  min: 1_000,
  max: 9_000,
  allowed: ['node-1', 'node-2'],
}

/** Each group's record and seq, by id. */
async function contentOf(storage: Storage): Promise<Record<string, [GroupRecord, number]>> {
  const found = await read(storage)
  const content = Object.fromEntries(
    found.map(({ id, record, seq }): [string, [GroupRecord, number]] => [id, [record, seq]]),
  )
  strictEqual(Object.keys(content).length, found.length, 'a group was found twice')
  return content
}

/** Appends to the newest head and returns the head after it. */
async function appended(
  storage: Storage,
  groups: Record<string, GroupRecord>,
  more: Partial<StorageHead> = {},
): Promise<StorageHead> {
  const head = await storage.head()
  const batch = batchAfter(
    head,
    Object.entries(groups).map(([id, record]) => ({ id, record })),
    more,
  )
  strictEqual(await storage.append(head, batch), 'done')
  return batch.head
}

/** Appends all groups in as many batches as it takes. */
async function appendedAll(storage: Storage, groups: readonly StoredGroup[]): Promise<void> {
  const { groups: most } = storage.maxBatch
  for (let from = 0; from < groups.length; from += Math.min(most, groups.length)) {
    const some = groups.slice(from, from + Math.min(most, groups.length))
    await appended(storage, Object.fromEntries(some.map(({ id, record }) => [id, record])))
  }
}

/** Appends a batch with a fault, and restores the network afterwards. */
async function suffered({ faulty }: Required<StorageWorld>, fault: Fault) {
  const { storage, suffer, deliver } = await faulty()
  const head = await appended(storage, { a: { term: 1 }, b: { term: 1 } })
  const groups = Array.from({ length: 100 }, (_, index) => ({ id: `torn-${index}`, record: lease }))
  const batch = batchAfter(head, [{ id: 'a', record: { term: 2, ended: 'resigned' } }, ...groups])
  suffer(fault)
  await rejects(storage.append(head, batch))
  suffer()
  return { storage, head, batch, deliver }
}

const before = { a: [{ term: 1 }, 1], b: [{ term: 1 }, 1] }

/** The content after that batch. */
const after = ({ groups }: Batch) => ({
  ...before,
  ...Object.fromEntries(groups.map(({ id, record }) => [id, [record, 2]])),
})

export const conformanceCases: readonly ConformanceCase[] = [
  {
    name: 'a new storage begins at seq 0 without groups, with a cluster id and a secret',
    async run({ storage }) {
      const head = await storage.head()
      strictEqual(head.seq, 0)
      strictEqual(head.restores, 0)
      notStrictEqual(head.clusterId, '')
      notStrictEqual(head.secret, '')
      deepStrictEqual(await contentOf(storage), {})
    },
  },
  {
    name: 'a batch that follows the head writes exactly its groups and its head',
    async run({ storage }) {
      const first = await appended(storage, { a: { term: 1 }, b: { term: 2 } })
      deepStrictEqual(await storage.head(), first)
      const second = await appended(
        storage,
        { b: lease, c: { term: 4, ended: 'resigned' } },
        { heldMs: 7, restores: 1 },
      )
      deepStrictEqual(await storage.head(), second)
      const { head } = await storage.load()
      deepStrictEqual(head, second)
      deepStrictEqual(await contentOf(storage), {
        a: [{ term: 1 }, 1],
        b: [lease, 2],
        c: [{ term: 4, ended: 'resigned' }, 2],
      })
      const { heldMs: _, ...rest } = second
      const third = batchAfter(rest, [])
      strictEqual(await storage.append(second, third), 'done')
      deepStrictEqual(await storage.head(), third.head)
    },
  },
  {
    name: 'a record is replaced as a whole',
    async run({ storage }) {
      await appended(storage, { a: lease })
      await appended(storage, { a: { term: 9, deleted: true } })
      deepStrictEqual(await contentOf(storage), { a: [{ term: 9, deleted: true }, 2] })
    },
  },
  ...(['term', 'seq', 'batch'] as const).map((field): ConformanceCase => ({
    name: `a batch that follows a head with another ${field} is fenced, and changes nothing`,
    async run({ storage }) {
      const head = await appended(storage, { a: { term: 1 } })
      const other = { ...head, [field]: field === 'batch' ? 'another' : head[field] + 1 }
      const batch = batchAfter(head, [
        { id: 'a', record: { term: 2 } },
        { id: 'b', record: { term: 1 } },
      ])
      strictEqual(await storage.append(other, batch), 'fenced')
      deepStrictEqual(await storage.head(), head)
      deepStrictEqual(await contentOf(storage), { a: [{ term: 1 }, 1] })
    },
  })),
  {
    name: 'a former active replica is fenced once another one took the head to a higher term',
    async run({ storage }) {
      const before = await appended(storage, { a: { term: 1 } })
      const swap = batchAfter(before, [], { term: before.term + 1 })
      strictEqual(await storage.append(before, swap), 'done')
      strictEqual(await storage.append(before, batchAfter(before, [{ id: 'a', record: { term: 2 } }])), 'fenced')
      deepStrictEqual(await storage.head(), swap.head)
      deepStrictEqual(await contentOf(storage), { a: [{ term: 1 }, 1] })
    },
  },
  {
    name: 'a repeated batch is done and changes nothing',
    async run({ storage }) {
      const head = await storage.head()
      const batch = batchAfter(head, [{ id: 'a', record: { term: 1 } }])
      strictEqual(await storage.append(head, batch), 'done')
      strictEqual(await storage.append(head, batch), 'done')
      deepStrictEqual(await storage.head(), batch.head)
      deepStrictEqual(await contentOf(storage), { a: [{ term: 1 }, 1] })
      await appended(storage, { b: { term: 1 } })
    },
  },
  {
    name: 'a repeated batch is fenced once another batch followed, and changes nothing',
    async run({ storage }) {
      const head = await storage.head()
      const batch = batchAfter(head, [{ id: 'a', record: { term: 1 } }])
      strictEqual(await storage.append(head, batch), 'done')
      const later = await appended(storage, { a: { term: 2 } })
      strictEqual(await storage.append(head, batch), 'fenced')
      deepStrictEqual(await storage.head(), later)
      deepStrictEqual(await contentOf(storage), { a: [{ term: 2 }, 2] })
    },
  },
  {
    name: 'the second of two batches that follow the same head is fenced, even if the first is empty',
    async run({ storage }) {
      const head = await storage.head()
      const instead = batchAfter(head, [])
      strictEqual(await storage.append(head, instead), 'done')
      strictEqual(await storage.append(head, batchAfter(head, [{ id: 'a', record: { term: 1 } }])), 'fenced')
      deepStrictEqual(await contentOf(storage), {})
      deepStrictEqual(await storage.head(), instead.head)
    },
  },
  {
    name: 'the next process finds everything that was appended',
    async run({ storage, reopen }) {
      await appended(storage, { a: lease, b: { term: 1 } })
      const head = await appended(storage, { b: { term: 2, heldMs: 7, restores: 1 } })
      const again = await reopen()
      deepStrictEqual(await again.head(), head)
      deepStrictEqual(await contentOf(again), { a: [lease, 1], b: [{ term: 2, heldMs: 7, restores: 1 }, 2] })
      await appended(again, { c: { term: 1 } })
      strictEqual((await again.head()).seq, 3)
    },
  },
  {
    name: 'each of many groups is loaded once',
    async run({ storage }) {
      const ids = Array.from({ length: 2_345 }, (_, index) => `group-${index}`)
      await appendedAll(
        storage,
        ids.map((id, index) => ({ id, record: { term: index + 1 } })),
      )
      const content = await contentOf(storage)
      deepStrictEqual(new Set(Object.keys(content)), new Set(ids))
      for (const [index, id] of ids.entries()) strictEqual(content[id]?.[0].term, index + 1)
    },
  },
  {
    name: 'a check changes nothing',
    async run({ storage }) {
      const head = await appended(storage, { a: { term: 1 } })
      await storage.check()
      deepStrictEqual(await storage.head(), head)
      deepStrictEqual(await contentOf(storage), { a: [{ term: 1 }, 1] })
    },
  },
  {
    name: 'a repeated batch is confirmed by a write, not by a read',
    needs: ['writes'],
    async run({ storage, writes }) {
      const head = await storage.head()
      const batch = batchAfter(head, [{ id: 'a', record: { term: 1 } }])
      strictEqual(await storage.append(head, batch), 'done')
      const before = await writes()
      strictEqual(await storage.append(head, batch), 'done')
      ok((await writes()) > before, 'nothing was written')
    },
  },
  {
    name: 'a check writes to the storage',
    needs: ['writes'],
    async run({ storage, writes }) {
      const before = await writes()
      await storage.check()
      ok((await writes()) > before, 'nothing was written')
    },
  },
  {
    name: 'each distinct name is a distinct group',
    async run({ storage }) {
      const ids = [
        'a',
        'A',
        'a/b',
        'a%2Fb',
        'a%2fb',
        '%',
        '..',
        '.',
        ' ',
        'a b',
        'a+b',
        'head',
        'check',
        'a:b',
        'ü',
        'u\u0308',
      ]
      ids.push(
        '__proto__x',
        'constructor',
        "o'hare",
        '"',
        '\\',
        '\u{1F600}',
        '\uFFFD',
        'x'.repeat(256),
        'ü'.repeat(128),
      )
      await appendedAll(
        storage,
        ids.map((id, index) => ({ id, record: { term: index + 1 } })),
      )
      const content = await contentOf(storage)
      deepStrictEqual(new Set(Object.keys(content)), new Set(ids))
      for (const [index, id] of ids.entries()) strictEqual(content[id]?.[0].term, index + 1, id)
    },
  },
  {
    name: 'a batch of the maximum size is written',
    async run({ storage }) {
      const { groups: most, bytes } = storage.maxBatch
      const count = Math.min(most, 1_000)
      const checkpoint = 'x'.repeat(Math.min(Math.floor(bytes / count) - 400, 8_000))
      const groups = Array.from({ length: count }, (_, index) => ({
        id: `${'ü'.repeat(125)}${index}`,
        record: { term: index + 1, checkpoint },
      }))
      const head = await storage.head()
      strictEqual(await storage.append(head, batchAfter(head, groups)), 'done')
      strictEqual(Object.keys(await contentOf(storage)).length, count)
    },
  },
  {
    name: 'only one of several processes initializes the data, however late another one arrives',
    needs: ['beginLate'],
    async run({ beginLate }) {
      const { open, deliver } = await beginLate()
      const [one, other] = await Promise.all([open(), open()])
      const first = await one.head()
      await deliver()
      deepStrictEqual(await other.head(), first)
      const head = await appended(other, { a: { term: 1 } })
      await deliver()
      deepStrictEqual(await one.head(), head)
      deepStrictEqual(await contentOf(one), { a: [{ term: 1 }, 1] })
    },
  },
  {
    name: "a load during another process's append returns the data of one moment or fails",
    needs: ['another'],
    async run({ storage, another }) {
      const ids = Array.from({ length: 700 }, (_, index) => `group-${1_000 + index}`)
      // The groups are large, so that there are more than two pages, one of which is read ahead.
      const checkpoint = 'x'.repeat(4_000)
      const groups = (term: number) => ids.map((id) => ({ id, record: { term, checkpoint } }))
      await appendedAll(storage, groups(1))
      const other = await another()
      const { head, pages } = await storage.load()
      const found: [string, number][] = []
      try {
        for await (const page of pages) {
          if (found.length === 0) await appendedAll(other, groups(2))
          found.push(...page.map(({ id, record }): [string, number] => [id, record.term]))
        }
      } catch {
        return
      }
      deepStrictEqual(new Set(found.map(([, term]) => term)), new Set([1]))
      strictEqual(found.length, ids.length)
      ok(head.seq < (await storage.head()).seq)
    },
  },
  {
    name: 'an append of another process fences this one',
    needs: ['another'],
    async run({ storage, another }) {
      const head = await appended(storage, { a: { term: 1 } })
      const other = await another()
      const swap = batchAfter(head, [], { term: head.term + 1 })
      strictEqual(await other.append(head, swap), 'done')
      strictEqual(await storage.append(head, batchAfter(head, [{ id: 'a', record: { term: 2 } }])), 'fenced')
      deepStrictEqual(await storage.head(), swap.head)
      deepStrictEqual(await contentOf(storage), { a: [{ term: 1 }, 1] })
    },
  },
  {
    name: 'a lost append rejects, and an empty batch can take its place',
    needs: ['faulty'],
    async run(world) {
      const { storage, head, batch } = await suffered(world, 'lost')
      const instead = batchAfter(head, [])
      strictEqual(await storage.append(head, instead), 'done')
      strictEqual(await storage.append(head, batch), 'fenced')
      deepStrictEqual(await storage.head(), instead.head)
      deepStrictEqual(await contentOf(storage), before)
    },
  },
  {
    name: 'an append that took effect without an answer rejects, cannot be replaced, and succeeds when repeated',
    needs: ['faulty'],
    async run(world) {
      const { storage, head, batch } = await suffered(world, 'unheard')
      strictEqual(await storage.append(head, batchAfter(head, [])), 'fenced')
      strictEqual(await storage.append(head, batch), 'done')
      deepStrictEqual(await storage.head(), batch.head)
      deepStrictEqual(await contentOf(storage), after(batch))
    },
  },
  {
    name: 'an append that arrives after another one was done changes nothing',
    needs: ['faulty'],
    async run(world) {
      const { storage, head, deliver } = await suffered(world, 'late')
      const instead = batchAfter(head, [])
      strictEqual(await storage.append(head, instead), 'done')
      await deliver()
      deepStrictEqual(await storage.head(), instead.head)
      await appended(storage, { b: { term: 2 } })
      await deliver()
      deepStrictEqual(await contentOf(storage), { a: before.a, b: [{ term: 2 }, 3] })
    },
  },
  {
    name: 'an append that arrives late and is repeated takes effect once',
    needs: ['faulty'],
    async run(world) {
      const { storage, head, batch, deliver } = await suffered(world, 'late')
      await deliver()
      strictEqual(await storage.append(head, batch), 'done')
      const next = await appended(storage, { a: { term: 3 } })
      strictEqual(await storage.append(head, batch), 'fenced')
      deepStrictEqual(await storage.head(), next)
      deepStrictEqual(await contentOf(storage), { ...after(batch), a: [{ term: 3 }, 3] })
    },
  },
  {
    name: 'a torn append takes effect as a whole or not at all',
    needs: ['faulty'],
    async run(world) {
      const { storage, head, batch } = await suffered(world, 'torn')
      const isThere = (await storage.append(head, batchAfter(head, []))) === 'fenced'
      if (isThere) strictEqual(await storage.append(head, batch), 'done')
      deepStrictEqual(await contentOf(storage), isThere ? after(batch) : before)
    },
  },
  {
    name: 'a storage detects that its data was copied to a server with another history',
    needs: ['replaced'],
    async run({ storage, replaced }) {
      const first = await storage.head()
      deepStrictEqual(await storage.history?.(), { incarnation: first.incarnation, isComplete: true })
      const head = await appended(storage, { a: { term: 1 } })
      const copy = await replaced()
      deepStrictEqual(await copy.head(), head)
      const { incarnation = '', isComplete } = (await copy.history?.()) ?? {}
      strictEqual(isComplete, false)
      notStrictEqual(incarnation, first.incarnation)
      strictEqual(await copy.append(head, batchAfter(head, [], { incarnation })), 'done')
      deepStrictEqual(await copy.history?.(), { incarnation, isComplete: true })
    },
  },
]
