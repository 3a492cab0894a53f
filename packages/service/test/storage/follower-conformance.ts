/** The requirements for the reads of a follower. See `FollowerReads` in src/storage/storage.ts. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type {
  FollowerReads,
  GroupsAt,
  LoadedGroup,
  Storage,
  StorageHead,
  StoredGroup,
} from '../../src/storage/storage.ts'
import type { ConformanceCase } from './conformance.ts'
import { batchAfter } from './data-directories.ts'

async function appended(storage: Storage, groups: readonly StoredGroup[]): Promise<StorageHead> {
  const head = await storage.head()
  const batch = batchAfter(head, groups)
  strictEqual(await storage.append(head, batch), 'done')
  return batch.head
}

function readsOf({ follower }: Storage): FollowerReads {
  ok(follower, 'the storage has no reads for followers')
  return follower
}

const groupsIn = ({ parts }: GroupsAt): LoadedGroup[] => [...parts].flat()
const one = (id: string, term: number): StoredGroup => ({ id, record: { term } })

export const followerCases: readonly ConformanceCase[] = [
  {
    name: 'each batch is listed with the ids of its groups and the batch that it followed',
    needs: ['another'],
    async run({ storage, another }) {
      const first = await appended(storage, [one('a', 1), one('Ünï côde/%41', 2)])
      const second = await appended(storage, [])
      const third = await appended(storage, [one('a', 2)])
      const listed = await readsOf(await another()).batches(1, 3)
      deepStrictEqual(
        [...listed.values()].toSorted((x, y) => x.seq - y.seq),
        [
          { seq: 1, batch: first.batch, after: '', ids: ['a', 'Ünï côde/%41'] },
          { seq: 2, batch: second.batch, after: first.batch, ids: [] },
          { seq: 3, batch: third.batch, after: second.batch, ids: ['a'] },
        ],
      )
    },
  },
  {
    name: 'a batch that was not appended yet is not listed',
    needs: ['another'],
    async run({ storage }) {
      await appended(storage, [one('a', 1)])
      const listed = await readsOf(storage).batches(1, 2)
      deepStrictEqual([...listed.keys()], [1])
      // The list is a ring, so this batch would be in the place of the first one.
      deepStrictEqual([...(await readsOf(storage).batches(4_097, 4_097)).keys()], [])
    },
  },
  {
    name: 'a fenced batch is not listed',
    needs: ['another'],
    async run({ storage }) {
      const head = await storage.head()
      const first = await appended(storage, [one('a', 1)])
      strictEqual(await storage.append(head, batchAfter(head, [one('b', 1)])), 'fenced')
      deepStrictEqual((await readsOf(storage).batches(1, 1)).get(1)?.batch, first.batch)
    },
  },
  {
    name: 'a repeated batch is still listed with its groups',
    needs: ['another'],
    async run({ storage }) {
      const head = await storage.head()
      const batch = batchAfter(head, [one('a', 1), one('b', 1)])
      strictEqual(await storage.append(head, batch), 'done')
      strictEqual(await storage.append(head, batch), 'done')
      deepStrictEqual((await readsOf(storage).batches(1, 1)).get(1)?.ids, ['a', 'b'])
    },
  },
  {
    name: 'named groups are read with their seq and the head of the same moment',
    needs: ['another'],
    async run({ storage, another }) {
      await appended(storage, [one('a', 1), one('Ünï côde/%41', 1), one('c', 1)])
      const head = await appended(storage, [one('a', 2)])
      const found = await readsOf(await another()).groups(['a', 'Ünï côde/%41', 'unknown'])
      deepStrictEqual(found.head, head)
      deepStrictEqual(
        new Map(groupsIn(found).map(({ id, record, seq }) => [id, [record, seq]])),
        new Map([
          ['a', [{ term: 2 }, 2]],
          ['Ünï côde/%41', [{ term: 1 }, 1]],
        ]),
      )
    },
  },
  {
    name: 'pages show every group once although batches are appended in between, each page with the head of its moment',
    needs: ['another'],
    async run({ storage, another }) {
      const reads = readsOf(await another())
      const ids = Array.from({ length: 230 }, (_, index) => `group-${index}`)
      const most = Math.min(storage.maxBatch.groups, 100)
      let head = await storage.head()
      for (let from = 0; from < ids.length; from += most) {
        head = await appended(
          storage,
          ids.slice(from, from + most).map((id) => one(id, 1)),
        )
      }
      const found: LoadedGroup[] = []
      let next: string | undefined
      do {
        const page = await reads.page(next)
        deepStrictEqual(page.head, head)
        for (const group of groupsIn(page)) {
          found.push(group)
          ok(group.seq <= head.seq)
        }
        ;({ next } = page)
        head = await appended(storage, [one('group-0', head.seq)])
      } while (next !== undefined)
      deepStrictEqual(found.map(({ id }) => id).toSorted(), ids.toSorted())
    },
  },
]
