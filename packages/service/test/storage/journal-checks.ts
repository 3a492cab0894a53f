/** The requirements for a journal on a storage whose answers can be lost. */
import { deepStrictEqual, rejects, strictEqual } from 'node:assert/strict'
import { ServiceError } from '../../src/common/errors.ts'
import type { Journal } from '../../src/storage/journal.ts'
import { batchAfter, read } from './data-directories.ts'
import { MemoryStorage, type Fault } from './memory-storage.ts'

export interface JournalCheck {
  readonly name: string
  run(open: OpenJournal): Promise<void>
}

export type OpenJournal = (...options: ConstructorParameters<typeof Journal>) => Journal

interface Scene {
  readonly storage: MemoryStorage
  readonly journal: Journal
  /** The stored term of each group. */
  terms(): Promise<Record<string, number>>
}

async function sceneOf(open: OpenJournal, ...faults: (Fault | undefined)[]): Promise<Scene> {
  const storage = new MemoryStorage()
  storage.faults.push(...faults)
  let ids = 0
  // The record in memory, regardless of the outcome of the writes.
  const recordNow = () => ({ term: 100 })
  const journal = open(storage, await storage.head(), { newId: () => `batch-${++ids}`, recordNow })
  const terms = async () => Object.fromEntries((await read(storage)).map(({ id, record }) => [id, record.term]))
  return { storage, journal, terms }
}

const unavailable = { code: 'BACKEND_UNAVAILABLE' }

export const journalChecks: readonly JournalCheck[] = [
  {
    name: 'the journal appends one batch at a time, each with everything that arrived during the previous one',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open)
      let release = () => {}
      storage.gate = new Promise((resolve) => (release = resolve))
      const first = [journal.write('a', { term: 1 }), journal.write('b', { term: 1 })]
      while (storage.handedIn.length === 0) await turn()
      const second = [journal.write('c', { term: 1 }), journal.write('d', { term: 1 })]
      for (let turns = 0; turns < 5; turns++) await turn()
      release()
      await Promise.all([...first, ...second])
      deepStrictEqual(storage.handedIn, [
        ['a', 'b'],
        ['c', 'd'],
      ])
      strictEqual(storage.mostInFlight, 1)
      deepStrictEqual(await terms(), { a: 1, b: 1, c: 1, d: 1 })
    },
  },
  {
    name: 'a write is not answered before its batch is stored',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open)
      let release = () => {}
      storage.gate = new Promise((resolve) => (release = resolve))
      let answered = false
      const write = journal.write('a', { term: 1 }).then(() => (answered = true))
      for (let turns = 0; turns < 5; turns++) await turn()
      strictEqual(answered, false)
      release()
      await write
      deepStrictEqual(await terms(), { a: 1 })
    },
  },
  {
    name: 'no batch exceeds the maximum of the storage, in groups or in bytes',
    async run(open) {
      const { storage, journal } = await sceneOf(open)
      storage.maxBatch = { groups: 3, bytes: 100 }
      const checkpoint = 'x'.repeat(60)
      const ids = ['a', 'b', 'c', 'd', 'e']
      await Promise.all([
        ...ids.map((id) => journal.write(id, { term: 1 })),
        ...['f', 'g', 'h'].map((id) => journal.write(id, { term: 1, checkpoint })),
      ])
      deepStrictEqual(storage.handedIn, [['a', 'b', 'c'], ['d', 'e'], ['f'], ['g'], ['h']])
    },
  },
  {
    name: 'a lost batch fails its writers at once and is abandoned before the next batch',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open, 'lost')
      await rejects(journal.write('a', { term: 1 }), unavailable)
      deepStrictEqual(storage.handedIn, [['a']])
      await journal.write('b', { term: 1 })
      deepStrictEqual(storage.handedIn, [['a'], [], ['b']])
      deepStrictEqual(await terms(), { b: 1 })
    },
  },
  {
    name: 'a batch that took effect without an answer is confirmed by a write before the next batch',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open, 'unheard')
      await rejects(journal.write('a', { term: 1 }), unavailable)
      await journal.write('b', { term: 1 })
      deepStrictEqual(storage.handedIn, [['a'], [], ['a'], ['a'], ['b']])
      deepStrictEqual(await terms(), { a: 100, b: 1 })
    },
  },
  {
    name: 'the records of a batch that took effect without an answer are replaced from memory before other writes',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open, 'unheard', undefined, undefined, 'unheard', 'lost')
      storage.maxBatch = { groups: 2, bytes: Infinity }
      const failing = ['a', 'b'].map((id) => rejects(journal.write(id, { term: 1 }), unavailable))
      await Promise.all(failing)
      await rejects(journal.write('c', { term: 1 }), unavailable)
      await rejects(journal.write('d', { term: 1 }), unavailable)
      const { head } = await journal.write('e', { term: 1 })
      deepStrictEqual(await terms(), { a: 100, b: 100, e: 1 })
      const written = new Map((await read(storage)).map(({ id, seq }) => [id, seq]))
      for (const id of ['a', 'b']) strictEqual((written.get(id) ?? Infinity) < head.seq, true)
    },
  },
  {
    name: 'each write reports the head of its batch and its index in it',
    async run(open) {
      const { storage, journal } = await sceneOf(open)
      const places = await Promise.all(['a', 'b', 'c'].map((id) => journal.write(id, { term: 1 })))
      const seq = (await storage.head()).seq
      deepStrictEqual(
        places.map(({ head, index, isLast }) => [head.seq, index, isLast]),
        [
          [seq, 0, false],
          [seq, 1, false],
          [seq, 2, true],
        ],
      )
    },
  },
  {
    name: 'a late batch changes nothing once it was abandoned',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open, 'late')
      await rejects(journal.write('a', { term: 1, ended: 'resigned' }), unavailable)
      await journal.write('a', { term: 2 })
      deepStrictEqual(storage.deliver(), ['fenced'])
      deepStrictEqual(await terms(), { a: 2 })
    },
  },
  {
    name: 'the batch that replaces an abandoned one is repeated until it is answered, and nothing else is sent',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open, 'lost', 'unheard', 'lost')
      await rejects(journal.write('a', { term: 1 }), unavailable)
      await rejects(journal.write('b', { term: 1 }), unavailable)
      await rejects(journal.write('c', { term: 1 }), unavailable)
      deepStrictEqual(storage.handedIn, [['a'], [], []])
      await journal.write('d', { term: 1 })
      deepStrictEqual(await terms(), { d: 1 })
    },
  },
  {
    name: 'the append of another writer ends the journal permanently',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open)
      await journal.write('a', { term: 1 })
      const head = await storage.head()
      strictEqual(await storage.append(head, batchAfter(head, [{ id: 'a', record: { term: 9 } }], { term: 7 })), 'done')
      await rejects(journal.write('a', { term: 2 }), unavailable)
      const before = storage.handedIn.length
      await rejects(journal.write('b', { term: 1 }), unavailable)
      strictEqual(storage.handedIn.length, before)
      deepStrictEqual(await terms(), { a: 9 })
    },
  },
  {
    name: 'nothing is sent after the end of the journal, whatever was in flight',
    async run(open) {
      // First the empty batch is fenced, then the batch itself is confirmed, then its records are replaced, and then b
      // is written.
      for (const last of [2, 3, 4]) {
        const { storage, journal } = await sceneOf(open, 'unheard')
        await rejects(journal.write('a', { term: 1 }), unavailable)
        const append = storage.append.bind(storage)
        storage.append = (...call) => {
          if (storage.handedIn.length === last - 1) journal.end(new ServiceError('BACKEND_UNAVAILABLE', 'It is over.'))
          return append(...call)
        }
        await rejects(journal.write('b', { term: 1 }), unavailable)
        strictEqual(storage.handedIn.length, last)
      }
    },
  },
  {
    name: 'a check fails as long as the next write would',
    async run(open) {
      const { storage, journal, terms } = await sceneOf(open, 'unheard', 'lost')
      await rejects(journal.write('a', { term: 1 }), unavailable)
      await rejects(journal.check(), unavailable)
      await journal.check()
      deepStrictEqual(storage.handedIn, [['a'], [], [], ['a'], ['a']])
      const head = await storage.head()
      strictEqual(await storage.append(head, batchAfter(head, [], { term: 7 })), 'done')
      await rejects(journal.write('a', { term: 2 }), unavailable)
      await rejects(journal.check(), unavailable)
      deepStrictEqual(await terms(), { a: 100 })
    },
  },
  {
    name: 'a check runs after the writes that were requested before it',
    async run(open) {
      const { journal, terms } = await sceneOf(open)
      const writes = [journal.write('a', { term: 1 }), journal.write('b', { term: 1 })]
      await journal.check()
      deepStrictEqual(await terms(), { a: 1, b: 1 })
      await Promise.all(writes)
      await journal.idle()
    },
  },
]

const turn = () => new Promise<void>((resolve) => void setImmediate(resolve))
