/** What every storage of groups must do: see src/storage/storage.ts. */
import { deepStrictEqual, notStrictEqual, strictEqual } from 'node:assert/strict'
import type { GroupRecord, Storage, StorageHead } from '../../src/storage/storage.ts'
import { batchAfter, read } from './data.ts'

/** A storage without data, and the way to the next process on it. */
export interface StorageWorld {
  readonly storage: Storage
  /** Closes it, and opens the same data. */
  reopen(): Promise<Storage>
}

export interface ConformanceCase {
  readonly name: string
  run(world: StorageWorld): Promise<void>
}

const lease: GroupRecord = {
  term: 3,
  leaseTerm: 2,
  node: 'node-1',
  attempt: 'a',
  ttl: 5_000,
  at: 1_700_000_000_000,
  meta: '{"zone":"a \\"b\\"","n":[1,2]}',
  carry: 'seite 7 – ünïcode',
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

/** Appends to the newest head, and returns the head after it. */
async function appended(storage: Storage, groups: Record<string, GroupRecord>): Promise<StorageHead> {
  const head = await storage.head()
  const batch = batchAfter(
    head,
    Object.entries(groups).map(([id, record]) => ({ id, record })),
  )
  strictEqual(await storage.append(head, batch), 'done')
  return batch.head
}

export const conformanceCases: readonly ConformanceCase[] = [
  {
    name: 'begins at seq 0 without groups, with a name and a secret',
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
    name: 'a batch that follows the head is done: its groups and its head are there, and nothing else',
    async run({ storage }) {
      const first = await appended(storage, { a: { term: 1 }, b: { term: 2 } })
      deepStrictEqual(await storage.head(), first)
      const second = await appended(storage, { b: lease, c: { term: 4, ended: 'resigned' } })
      deepStrictEqual(await storage.head(), second)
      const { head } = await storage.load()
      deepStrictEqual(head, second)
      deepStrictEqual(await contentOf(storage), {
        a: [{ term: 1 }, 1],
        b: [lease, 2],
        c: [{ term: 4, ended: 'resigned' }, 2],
      })
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
    name: 'once another took the head to a higher term, its predecessor is fenced',
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
    name: 'the same batch again is done, and changes nothing',
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
    name: 'the same batch again is fenced once another followed, and brings nothing back',
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
    name: 'of two batches on one head the second is fenced: an empty one gives the other up',
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
    name: 'all of it is there for the next process',
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
    name: 'of many groups each is found once',
    async run({ storage }) {
      const ids = Array.from({ length: 2_345 }, (_, index) => `group-${index}`)
      await appended(storage, Object.fromEntries(ids.map((id, index) => [id, { term: index + 1 }])))
      const content = await contentOf(storage)
      deepStrictEqual(new Set(Object.keys(content)), new Set(ids))
      for (const [index, id] of ids.entries()) strictEqual(content[id]?.[0].term, index + 1)
    },
  },
  {
    name: 'a check leaves everything as it was',
    async run({ storage }) {
      const head = await appended(storage, { a: { term: 1 } })
      await storage.check()
      deepStrictEqual(await storage.head(), head)
      deepStrictEqual(await contentOf(storage), { a: [{ term: 1 }, 1] })
    },
  },
]
