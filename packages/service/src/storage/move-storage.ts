/**
 * Moves data from one storage to another. What must not happen is that both are served: each would grant what the other
 * has granted. So:
 *
 * 1. The target is looked at. It is empty, or has a part of these very data from an earlier try.
 * 2. The source is marked as moved, durably. From then on everything that is appended to it is fenced, and it is not opened
 *    any more, except for the same move. What is read after that is all there is.
 * 3. The target gets its first head, with a mark that it is not complete: it is not opened either.
 * 4. The groups are copied, each with its seq.
 * 5. In one step the target gets the head of the source. It has the same name, the same secret and the same terms.
 *
 * It may end anywhere, and be run again. What is copied twice is the same.
 */
import { isSameHead, type FoundGroup, type Loaded, type StorageHead } from './storage.ts'

/** Where the data are. */
export interface MoveSource {
  head(): Promise<StorageHead>
  isRetired(): Promise<boolean>
  /** Nothing is appended any more, and nobody opens these data, except to move them there. May be called again. */
  retire(movedTo: string): Promise<void>
  load(): Promise<Loaded>
}

/** What is known of a target. `done`: it has all that was moved there, or more by now. */
export type TargetState = 'empty' | 'begun' | 'done'

/** Where they are to be. */
export interface MoveTarget {
  /** As the source will name it. No two targets have the same. */
  readonly name: string
  /** Throws where there are other data than these. */
  state(source: StorageHead): Promise<TargetState>
  /** Writes a first head that is marked as not complete. */
  begin(head: StorageHead): Promise<void>
  fill(groups: readonly FoundGroup[]): Promise<void>
  /** Takes the mark away. */
  finish(head: StorageHead): Promise<void>
}

/** See the top of this file. Gives how many groups there are. */
export async function moveStorage(source: MoveSource, target: MoveTarget): Promise<number> {
  const state = await target.state(await source.head())
  if (state === 'done') {
    if (await source.isRetired()) return 0
    throw new Error(`There are data of this name in ${target.name} that were not moved there now. Name an empty place.`)
  }
  await source.retire(target.name)
  const { head, pages } = await source.load()
  if (state === 'empty') await target.begin(head)
  let count = 0
  for await (const page of pages) {
    await target.fill(page)
    count += page.length
  }
  if (!isSameHead(await source.head(), head)) throw new Error('The data changed while they were moved.')
  await target.finish(head)
  return count
}
