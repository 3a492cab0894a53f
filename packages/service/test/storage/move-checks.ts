/** The requirements for every move, regardless of the source and the target. */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import type { MoveSource, MoveTarget } from '../../src/storage/move-storage.ts'
import type { moveStorage } from '../../src/storage/move-storage.ts'
import type { LoadedGroup, GroupRecord, Storage, StorageHead } from '../../src/storage/storage.ts'
import { batchAfter, read } from './data-directories.ts'

interface Closing {
  close(): Promise<unknown>
}

/** A place where data can be stored. */
export interface Place {
  readonly name: string
  /** Opens the data as a starting service does. */
  serve(): Promise<Storage>
  source(movingTo: string): Promise<MoveSource & Closing>
  target(): Promise<MoveTarget & Closing>
}

export interface MoveCheck {
  readonly name: string
  run(from: Place, to: Place, move: typeof moveStorage): Promise<void>
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

interface Content {
  readonly head: StorageHead
  readonly groups: readonly LoadedGroup[]
}

const byId = (one: LoadedGroup, other: LoadedGroup) => (one.id < other.id ? -1 : 1)

async function contentOf(place: Place): Promise<Content> {
  const storage = await place.serve()
  const content = { head: await storage.head(), groups: (await read(storage)).toSorted(byId) }
  await storage.close()
  return content
}

/** Appends several batches, so that groups differ in their seq. */
async function fill(place: Place): Promise<Content> {
  const storage = await place.serve()
  const many = Array.from({ length: 250 }, (_, index) => ({ id: `group/${index} ü`, record: { term: index + 1 } }))
  const parts = [many.slice(0, 100), many.slice(100, 200), many.slice(200), [{ id: 'group/7 ü', record: lease }]]
  for (const groups of parts) {
    const head = await storage.head()
    strictEqual(await storage.append(head, batchAfter(head, groups, { restores: 2, heldMs: 9 })), 'done')
  }
  await storage.close()
  return contentOf(place)
}

async function movedBy(move: typeof moveStorage, from: Place, to: Place, steps: Steps = noSteps): Promise<number> {
  const target = await to.target()
  try {
    const source = await from.source(target.name)
    try {
      return await move(steps.source(source), steps.target(target))
    } finally {
      await source.close()
    }
  } finally {
    await target.close()
  }
}

/** Compares everything except the incarnation, which differs from server to server. */
function sameData({ head, groups }: Content, before: Content): void {
  deepStrictEqual(groups, before.groups)
  deepStrictEqual({ ...head, incarnation: '' }, { ...before.head, incarnation: '' })
}

/**
 * Returns whether a service that is started at this place serves data. An empty place does not count, because a service
 * would initialize it.
 */
async function isServed(place: Place, moved?: StorageHead): Promise<boolean> {
  if (moved) {
    const target = await place.target()
    const state = await target.state(moved)
    await target.close()
    if (state === 'empty') return false
  }
  const storage = await place.serve().catch(() => undefined)
  await storage?.close()
  return storage !== undefined
}

/** Hooks into each step of a move. */
interface Steps {
  source(source: MoveSource): MoveSource
  target(target: MoveTarget): MoveTarget
}

const noSteps: Steps = { source: (source) => source, target: (target) => target }

/** Ends a move before or after its n-th step. */
function endingAt(step: number, isAfter: boolean): Steps & { readonly isOver: boolean } {
  let count = 0
  const ending = async <T>(work: () => Promise<T>): Promise<T> => {
    const isHere = ++count === step
    if (isHere && !isAfter) throw new Error('it ended')
    const result = await work()
    if (isHere) throw new Error('it ended')
    return result
  }
  return {
    get isOver() {
      return count < step
    },
    source: (source) => ({
      head: () => source.head(),
      isRetired: () => source.isRetired(),
      retire: (to) => ending(() => source.retire(to)),
      load: () => source.load(),
    }),
    target: (target) => ({
      name: target.name,
      state: (head) => target.state(head),
      begin: (head) => ending(() => target.begin(head)),
      fill: (groups) => ending(() => target.fill(groups)),
      finish: (head) => ending(() => target.finish(head)),
    }),
  }
}

export const moveChecks: readonly MoveCheck[] = [
  {
    name: 'a move transfers every group, its seq, and the whole head, and the source is no longer served',
    async run(from, to, move) {
      const before = await fill(from)
      strictEqual(await movedBy(move, from, to), 250)
      sameData(await contentOf(to), before)
      await rejects(from.serve(), /cannot be used: it was moved to .*Use that one/)
      // A second move finds that everything is done.
      strictEqual(await movedBy(move, from, to), 0)
      sameData(await contentOf(to), before)
    },
  },
  {
    name: 'source and target are never both served, wherever a move ends, and running the move again completes it',
    async run(from, to, move) {
      const before = await fill(from)
      for (let step = 1; ; step++) {
        const ends = [endingAt(step, false), endingAt(step, true)]
        for (const steps of ends) {
          await movedBy(move, from, to, steps).catch(() => {})
          ok(!((await isServed(from)) && (await isServed(to, before.head))), `both, at step ${step}`)
        }
        if (ends.every(({ isOver }) => isOver)) break
      }
      await movedBy(move, from, to)
      sameData(await contentOf(to), before)
      strictEqual(await isServed(from), false)
    },
  },
  {
    name: 'a move to a place with other data is refused and leaves the source unchanged',
    async run(from, to, move) {
      const before = await fill(from)
      await (await to.serve()).close()
      await rejects(movedBy(move, from, to), /other data/)
      deepStrictEqual(await contentOf(from), before)
    },
  },
  {
    name: 'a move that was begun to one place does not continue to another',
    async run(from, to, move) {
      await fill(from)
      await rejects(movedBy(move, from, to, endingAt(1, true)), /it ended/)
      await rejects(from.source('somewhere else'), /it was moved to/)
      await movedBy(move, from, to)
    },
  },
]
