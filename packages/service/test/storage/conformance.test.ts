import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Appended, Batch, FoundGroup, Loaded, StorageHead } from '../../src/storage/storage.ts'
import { conformanceCases, type StorageWorld } from './conformance.ts'
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
  return { storage, reopen }
}

const memoryWorld = (storage: MemoryStorage): StorageWorld => ({ storage, reopen: async () => storage })

describe('a data directory', () => {
  test.each(conformanceCases)('$name', async ({ run }) => run(await lmdbWorld()))
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
]

test.each(mistakes)('a storage that $name is found out', async ({ by, storage }) => {
  const found = conformanceCases.find(({ name }) => name === by)
  expect(found, by).toBeDefined()
  await expect(found?.run(memoryWorld(storage()))).rejects.toThrow()
})
