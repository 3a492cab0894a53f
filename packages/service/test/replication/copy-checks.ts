/** The required behavior of a follower's copy, in the order of the rules at the top of group-copy.ts. */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import { fakeClock } from '@tenure/testing'
import type * as groupCopy from '../../src/replication/group-copy.ts'
import type { Batch, StorageHead } from '../../src/storage/storage.ts'
import { batchAfter, write } from '../storage/data-directories.ts'
import { FollowedStorage } from '../storage/followed-storage.ts'

export type CopyModule = typeof groupCopy

export interface CopyCheck {
  readonly name: string
  run(modules: CopyModule): Promise<void>
}

const ids = ['a', 'b', 'c', 'd', 'e']
const one = (id: string, term: number) => ({ id, record: { term } })

async function filled(): Promise<FollowedStorage> {
  const storage = new FollowedStorage()
  await write(storage, ...ids.map((id) => one(id, 1)))
  return storage
}

const begin = ({ GroupCopy }: CopyModule, storage: FollowedStorage) =>
  GroupCopy.begin(storage.follower, { clock: fakeClock(), graceMs: 0, maxGroups: 100 })

type Copy = Awaited<ReturnType<typeof begin>>

async function load(copy: Copy): Promise<void> {
  while (!copy.isLoaded) await copy.loadPage()
}

/** The term of each group in the copy. */
const termsIn = ({ groups }: Copy) => Object.fromEntries(ids.map((id) => [id, groups.table.get(id)?.term]))

/** Appends a batch without waiting. */
async function appended(storage: FollowedStorage, batch: Batch, head?: StorageHead): Promise<void> {
  strictEqual(await storage.append(head ?? (await storage.head()), batch), 'done')
}

/** Calls back once, before the next read with this name. */
function beforeNext(storage: FollowedStorage, name: string, callback: () => void | Promise<void>): void {
  storage.beforeRead = async (read) => {
    if (read !== name) return
    storage.beforeRead = undefined
    await callback()
  }
}

const broken = ({ BrokenCopy }: CopyModule) => BrokenCopy

export const copyChecks: readonly CopyCheck[] = [
  {
    name: 'a copy is complete once it has read all pages at the newest head',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      await copy.loadPage()
      ok(!copy.isAt(await storage.head()))
      await load(copy)
      ok(copy.isAt(await storage.head()))
      deepStrictEqual(termsIn(copy), { a: 1, b: 1, c: 1, d: 1, e: 1 })
    },
  },
  {
    name: 'a copy contains what was written while its pages were read',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      await copy.loadPage()
      await write(storage, one('a', 2))
      await load(copy)
      ok(copy.isAt(await storage.head()))
      deepStrictEqual(termsIn(copy), { a: 2, b: 1, c: 1, d: 1, e: 1 })
    },
  },
  {
    name: 'a copy reads every batch after its head',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      await load(copy)
      for (const id of ids) await write(storage, one(id, 2))
      ok(!copy.isAt(await storage.head()))
      await copy.follow()
      ok(copy.isAt(await storage.head()))
      deepStrictEqual(termsIn(copy), { a: 2, b: 2, c: 2, d: 2, e: 2 })
    },
  },
  {
    name: 'a copy breaks when a batch is no longer listed',
    async run(modules) {
      const storage = await filled()
      storage.listedBatches = 2
      const copy = await begin(modules, storage)
      await load(copy)
      for (const id of ids) await write(storage, one(id, 2))
      await rejects(copy.follow(), broken(modules))
    },
  },
  {
    name: 'a copy breaks when the batch that it is at was undone and others followed',
    async run(modules) {
      const storage = await filled()
      storage.copy()
      await write(storage, one('a', 2))
      const copy = await begin(modules, storage)
      await load(copy)
      storage.rollBack()
      await write(storage, one('b', 2))
      await write(storage, one('c', 2))
      await rejects(copy.follow(), broken(modules))
    },
  },
  {
    name: 'a copy breaks when the head goes back while it reads the groups of a batch, although the batch arrives again',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      await load(copy)
      storage.copy()
      const before = await storage.head()
      const batch = batchAfter(before, [one('a', 2)])
      await appended(storage, batch)
      beforeNext(storage, 'groups', () => storage.rollBack())
      await rejects(async () => {
        await copy.follow()
        await appended(storage, batch, before)
        await copy.follow()
        deepStrictEqual(termsIn(copy).a, 2)
      }, broken(modules))
    },
  },
  {
    name: 'a copy breaks when a page was read from a commit that was undone',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      storage.copy()
      // The page shows the commit, and the list already shows the commits that replaced it.
      const { page } = storage.follower
      Object.assign(storage.follower, {
        async page(from: string | undefined) {
          await write(storage, one('a', 2))
          const found = await page(from)
          storage.rollBack()
          await write(storage, one('b', 2))
          await write(storage, one('c', 2))
          Object.assign(storage.follower, { page })
          return found
        },
      })
      await rejects(async () => {
        await load(copy)
        await copy.follow()
      }, broken(modules))
    },
  },
  {
    name: 'a copy reads the groups of a batch again when the first read of them failed',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      await load(copy)
      await write(storage, one('a', 2))
      beforeNext(storage, 'groups', () => Promise.reject(new Error('no answer')))
      await rejects(copy.follow(), /no answer/)
      await copy.follow()
      ok(copy.isAt(await storage.head()))
      deepStrictEqual(termsIn(copy).a, 2)
    },
  },
  {
    name: 'a copy continues at the page that could not be read',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      await copy.loadPage()
      beforeNext(storage, 'page', () => Promise.reject(new Error('no answer')))
      await rejects(copy.loadPage(), /no answer/)
      await load(copy)
      ok(copy.isAt(await storage.head()))
      deepStrictEqual(termsIn(copy), { a: 1, b: 1, c: 1, d: 1, e: 1 })
    },
  },
  {
    name: 'a copy is not at a head that another batch has followed',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      await load(copy)
      const head = await storage.head()
      ok(!copy.isBeyond(head))
      await write(storage, one('a', 2))
      await copy.follow()
      ok(!copy.isAt(head))
      ok(copy.isBeyond(head))
    },
  },
  {
    name: 'a copy breaks when the head has another count of restores',
    async run(modules) {
      const storage = await filled()
      const copy = await begin(modules, storage)
      await load(copy)
      const head = await storage.head()
      await appended(storage, batchAfter(head, [], { restores: 1 }))
      await rejects(copy.follow(), broken(modules))
    },
  },
]
