import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fail } from 'node:assert/strict'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Appended, Batch, LoadedGroup, Loaded, StorageHead } from '../../src/storage/storage.ts'
import { readHeader } from '../../src/storage/data-file.ts'
import { casesFor, conformanceCases, type StorageWorld } from './conformance.ts'
import { openStorage } from './data-directories.ts'
import { FollowedStorage } from './followed-storage.ts'
import { followerCases } from './follower-conformance.ts'
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
      // A batch in memory has no parts.
      suffer: (fault) => storage.faults.splice(0, Infinity, ...(fault ? [fault === 'torn' ? 'lost' : fault] : [])),
      deliver: async () => storage.deliver(),
    }),
    async replaced() {
      storage.incarnation = 'another'
      return storage
    },
  }
}

describe('LMDB storage', () => {
  test.each(casesFor(['writes']))('$name', async ({ run }) => run((await lmdbWorld()) as Required<StorageWorld>))
})

describe('memory storage', () => {
  test.each(conformanceCases)('$name', async ({ run }) => run(memoryWorld(new MemoryStorage())))
  test.each(followerCases)('$name', async ({ run }) => run(memoryWorld(new FollowedStorage())))
})

/** Storages with one mutation each, and the case that must catch it. */
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
    name: 'fences a stored batch',
    by: 'a repeated batch is done and changes nothing',
    storage: () =>
      new (class extends MemoryStorage {
        protected override apply(expected: StorageHead, batch: Batch): Appended {
          return this.isAt(batch.head) ? 'fenced' : super.apply(expected, batch)
        }
      })(),
  },
  {
    name: 'reports every batch that it has seen as done',
    by: 'a repeated batch is fenced once another batch followed, and changes nothing',
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
    name: 'merges a record into the previous one',
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
    by: 'a batch that follows the head writes exactly its groups and its head',
    storage: () =>
      new (class extends MemoryStorage {
        protected override put({ groups }: Batch): void {
          super.put({ head: this.stored, groups })
        }
      })(),
  },
  {
    name: 'writes the head without the last group',
    by: 'a batch that follows the head writes exactly its groups and its head',
    storage: () =>
      new (class extends MemoryStorage {
        protected override put({ head, groups }: Batch): void {
          super.put({ head, groups: groups.slice(0, -1) })
        }
      })(),
  },
  {
    name: 'forgets the seq of each group',
    by: 'a batch that follows the head writes exactly its groups and its head',
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
    name: 'loads only its first page',
    by: 'each of many groups is loaded once',
    storage: () =>
      new (class extends MemoryStorage {
        protected override async *pages(groups: readonly LoadedGroup[]): AsyncGenerator<readonly LoadedGroup[]> {
          yield groups.slice(0, 100)
        }
      })(),
  },
  {
    name: 'moves its head during a check',
    by: 'a check changes nothing',
    storage: () =>
      new (class extends MemoryStorage {
        override async check(): Promise<void> {
          this.stored = { ...this.stored, seq: this.stored.seq + 1 }
        }
      })(),
  },
  {
    name: 'initializes data that another process has initialized',
    by: 'only one of several processes initializes the data, however late another one arrives',
    storage: () =>
      new (class extends MemoryStorage {
        override beginAgain(): void {
          this.stored = { ...this.stored, seq: 0, batch: '', clusterId: 'another' }
        }
      })(),
  },
  {
    name: 'settles a batch by a read instead of a write',
    by: 'a repeated batch is confirmed by a write, not by a read',
    storage: () =>
      new (class extends MemoryStorage {
        protected override confirm(): void {}
      })(),
  },
  {
    name: 'reads each page only when it is requested',
    by: "a load during another process's append returns the data of one moment or fails",
    storage: () =>
      new (class extends MemoryStorage {
        protected override async *pages(groups: readonly LoadedGroup[]): AsyncGenerator<readonly LoadedGroup[]> {
          for await (const page of super.pages(groups)) yield page.map(({ id }) => this.groups.get(id) ?? fail(id))
        }
      })(),
  },
  {
    name: 'applies a late batch whatever the head is by then',
    by: 'an append that arrives after another one was done changes nothing',
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
    by: 'a torn append takes effect as a whole or not at all',
    storage: () =>
      new (class extends MemoryStorage {
        override async append(expected: StorageHead, batch: Batch): Promise<Appended> {
          if (this.faults[0] === 'lost') this.put({ head: this.stored, groups: batch.groups.slice(0, 3) })
          return super.append(expected, batch)
        }
      })(),
  },
  {
    name: 'treats a batch that took effect as one that did not',
    by: 'an append that took effect without an answer rejects, cannot be replaced, and succeeds when repeated',
    storage: () =>
      new (class extends MemoryStorage {
        protected override isAt(head: StorageHead): boolean {
          return super.isAt(head) || head.seq === this.stored.seq - 1
        }
      })(),
  },
  {
    name: 'does not notice another history',
    by: 'a storage detects that its data was copied to a server with another history',
    storage: () =>
      new (class extends MemoryStorage {
        override async history() {
          return { incarnation: this.incarnation, isComplete: true }
        }
      })(),
  },
  {
    name: 'does not distinguish groups whose names differ only in case',
    by: 'each distinct name is a distinct group',
    storage: () =>
      new (class extends MemoryStorage {
        protected override put({ head, groups }: Batch): void {
          super.put({ head, groups: groups.map(({ id, record }) => ({ id: id.toLowerCase(), record })) })
        }
      })(),
  },
]

test.each(mistakes)('the conformance cases catch a storage that $name', async ({ by, storage }) => {
  const found = conformanceCases.find(({ name }) => name === by)
  expect(found, by).toBeDefined()
  await expect(found?.run(memoryWorld(storage()))).rejects.toThrow()
})
