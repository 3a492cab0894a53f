import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fail } from 'node:assert/strict'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Appended, Batch, FoundGroup, Loaded, StorageHead } from '../../src/storage/storage.ts'
import { readHeader } from '../../src/storage/data-file.ts'
import { casesFor, conformanceCases, type StorageWorld } from './conformance.ts'
import { openStorage } from './data.ts'
import { MemoryStorage } from './memory-storage.ts'

async function lmdbWorld(): Promise<StorageWorld> {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-storage-'))
  let storage = await openStorage(directory)
  onTestFinished(async () => {
    await storage.close()
    rmSync(directory, { recursive: true, force: true })
  })
  const reopen = async () => {
    await storage.close()
    return (storage = await openStorage(directory))
  }
  const writes = async () => readHeader(join(directory, 'elections.mdb')) ?? 0
  return { storage, reopen, writes }
}

function memoryWorld(storage: MemoryStorage): Required<StorageWorld> {
  const same = async () => storage
  return {
    storage,
    reopen: same,
    another: same,
    beginLate: async () => ({ open: same, deliver: async () => storage.beginAgain() }),
    writes: async () => storage.writes,
    faulty: async () => ({
      storage,
      // Of a batch in memory there are no parts.
      suffer: (fault) => storage.faults.splice(0, Infinity, ...(fault ? [fault === 'torn' ? 'lost' : fault] : [])),
      deliver: async () => storage.deliver(),
    }),
    async replaced() {
      storage.incarnation = 'another'
      return storage
    },
  }
}

describe('a data directory', () => {
  test.each(casesFor(['writes']))('$name', async ({ run }) => run((await lmdbWorld()) as Required<StorageWorld>))
})

describe('a storage in memory', () => {
  test.each(conformanceCases)('$name', async ({ run }) => run(memoryWorld(new MemoryStorage())))
})

/** Storages with one mistake each, and the case that must notice it. */
const mistakes: readonly { name: string; by: string; storage: () => MemoryStorage }[] = [
  {
    name: 'compares nothing',
    by: 'a batch that follows a head with another seq is fenced, and changes nothing',
    storage: () =>
      new (class extends MemoryStorage {
        protected override isAt(): boolean {
          return true
        }
        protected override apply(_expected: StorageHead, batch: Batch): Appended {
          this.put(batch)
          return 'done'
        }
      })(),
  },
  ...(['term', 'batch'] as const).map((field) => ({
    name: `does not compare the ${field}`,
    by: `a batch that follows a head with another ${field} is fenced, and changes nothing`,
    storage: () =>
      new (class extends MemoryStorage {
        protected override isAt(head: StorageHead): boolean {
          return super.isAt({ ...head, [field]: this.stored[field] })
        }
      })(),
  })),
  {
    name: 'writes the groups of a fenced batch',
    by: 'a batch that follows a head with another term is fenced, and changes nothing',
    storage: () =>
      new (class extends MemoryStorage {
        protected override apply(expected: StorageHead, batch: Batch): Appended {
          const appended = super.apply(expected, batch)
          if (appended === 'fenced') this.put({ ...batch, head: this.stored })
          return appended
        }
      })(),
  },
  {
    name: 'fences a batch that is there',
    by: 'the same batch again is done, and changes nothing',
    storage: () =>
      new (class extends MemoryStorage {
        protected override apply(expected: StorageHead, batch: Batch): Appended {
          return this.isAt(batch.head) ? 'fenced' : super.apply(expected, batch)
        }
      })(),
  },
  {
    name: 'takes every batch that it has seen for done',
    by: 'the same batch again is fenced once another followed, and brings nothing back',
    storage: () =>
      new (class extends MemoryStorage {
        readonly #seen = new Set<string>()
        protected override apply(expected: StorageHead, batch: Batch): Appended {
          if (this.#seen.has(batch.head.batch)) return 'done'
          this.#seen.add(batch.head.batch)
          return super.apply(expected, batch)
        }
      })(),
  },
  {
    name: 'merges a record into the one before',
    by: 'a record is replaced as a whole',
    storage: () =>
      new (class extends MemoryStorage {
        protected override put({ head, groups }: Batch): void {
          const merged = groups.map(({ id, record }) => ({ id, record: { ...this.groups.get(id)?.record, ...record } }))
          super.put({ head, groups: merged })
        }
      })(),
  },
  {
    name: 'writes the groups without the head',
    by: 'a batch that follows the head is done: its groups and its head are there, and nothing else',
    storage: () =>
      new (class extends MemoryStorage {
        protected override put({ groups }: Batch): void {
          super.put({ head: this.stored, groups })
        }
      })(),
  },
  {
    name: 'writes the head without the last group',
    by: 'a batch that follows the head is done: its groups and its head are there, and nothing else',
    storage: () =>
      new (class extends MemoryStorage {
        protected override put({ head, groups }: Batch): void {
          super.put({ head, groups: groups.slice(0, -1) })
        }
      })(),
  },
  {
    name: 'forgets with which batch a group was written',
    by: 'a batch that follows the head is done: its groups and its head are there, and nothing else',
    storage: () =>
      new (class extends MemoryStorage {
        override async load(): Promise<Loaded> {
          const { head } = await super.load()
          const groups = [...this.groups.values()].map((group) => ({ ...group, seq: head.seq }))
          return { head, pages: this.pages(groups) }
        }
      })(),
  },
  {
    name: 'loads its first page alone',
    by: 'of many groups each is found once',
    storage: () =>
      new (class extends MemoryStorage {
        protected override async *pages(groups: readonly FoundGroup[]): AsyncGenerator<readonly FoundGroup[]> {
          yield groups.slice(0, 100)
        }
      })(),
  },
  {
    name: 'moves its head at a check',
    by: 'a check leaves everything as it was',
    storage: () =>
      new (class extends MemoryStorage {
        override async check(): Promise<void> {
          this.stored = { ...this.stored, seq: this.stored.seq + 1 }
        }
      })(),
  },
  {
    name: 'begins where another has begun',
    by: 'of several that find no data one begins them, however late another comes',
    storage: () =>
      new (class extends MemoryStorage {
        override beginAgain(): void {
          this.stored = { ...this.stored, seq: 0, batch: '', clusterId: 'another' }
        }
      })(),
  },
  {
    name: 'settles by looking',
    by: 'the same batch again is confirmed by a write, not by a look',
    storage: () =>
      new (class extends MemoryStorage {
        protected override confirm(): void {}
      })(),
  },
  {
    name: 'reads each page when it is asked for',
    by: 'what is loaded while another appends is of one moment, or there is an error',
    storage: () =>
      new (class extends MemoryStorage {
        protected override async *pages(groups: readonly FoundGroup[]): AsyncGenerator<readonly FoundGroup[]> {
          for await (const page of super.pages(groups)) yield page.map(({ id }) => this.groups.get(id) ?? fail(id))
        }
      })(),
  },
  {
    name: 'applies what is late, whatever the head is by then',
    by: 'an append that arrives after another was done changes nothing',
    storage: () =>
      new (class extends MemoryStorage {
        readonly #given: Batch[] = []
        override async append(expected: StorageHead, batch: Batch): Promise<Appended> {
          if (this.faults[0] === 'late') this.#given.push(batch)
          return super.append(expected, batch)
        }
        override deliver(): Appended[] {
          for (const { groups } of this.#given.splice(0)) this.put({ head: this.stored, groups })
          return super.deliver()
        }
      })(),
  },
  {
    name: 'writes a part of a torn batch',
    by: 'an append that is torn is there as a whole or not at all',
    storage: () =>
      new (class extends MemoryStorage {
        override async append(expected: StorageHead, batch: Batch): Promise<Appended> {
          if (this.faults[0] === 'lost') this.put({ head: this.stored, groups: batch.groups.slice(0, 3) })
          return super.append(expected, batch)
        }
      })(),
  },
  {
    name: 'takes a batch that was carried out for one that never was',
    by: 'an append that is carried out unheard rejects: nothing takes its place, and the same again is done',
    storage: () =>
      new (class extends MemoryStorage {
        protected override isAt(head: StorageHead): boolean {
          return super.isAt(head) || head.seq === this.stored.seq - 1
        }
      })(),
  },
  {
    name: 'does not notice another history',
    by: 'the same data in another history of the server are noticed',
    storage: () =>
      new (class extends MemoryStorage {
        override async history() {
          return { incarnation: this.incarnation, isComplete: true }
        }
      })(),
  },
  {
    name: 'tells no groups apart whose names differ in capitals',
    by: 'any name is the name of a group of its own',
    storage: () =>
      new (class extends MemoryStorage {
        protected override put({ head, groups }: Batch): void {
          super.put({ head, groups: groups.map(({ id, record }) => ({ id: id.toLowerCase(), record })) })
        }
      })(),
  },
]

test.each(mistakes)('a storage that $name is found out', async ({ by, storage }) => {
  const found = conformanceCases.find(({ name }) => name === by)
  expect(found, by).toBeDefined()
  await expect(found?.run(memoryWorld(storage()))).rejects.toThrow()
})
