/**
 * Moves data from one storage to another. The two must never both be served: each would grant what the other has
 * granted. So:
 *
 * 1. Check the target. It must be empty, or contain part of the same data from an earlier attempt.
 * 2. Mark the source as moved, durably. From then on every append to it is fenced, and it cannot be opened, except for
 *    the same move. Data that is read after that is complete.
 * 3. Write the target's first head, with a mark that the target is incomplete. It cannot be opened either.
 * 4. Copy the groups, each with its seq.
 * 5. In one step, give the target the head of the source. It has the same cluster id, secret, and terms.
 *
 * The move may be interrupted at any point and run again. Copying a group twice has the same result.
 */
import { isSameHead, type LoadedGroup, type Loaded, type StorageHead } from './storage.ts'

/** The storage that currently has the data. */
export interface MoveSource {
  head(): Promise<StorageHead>
  isRetired(): Promise<boolean>
  /**
   * After this resolves, nothing is appended, and nobody can open this data, except to move it to that target. May be
   * called again.
   */
  retire(movedTo: string): Promise<void>
  load(): Promise<Loaded>
}

/** The state of a target. `done`: it has everything that was moved there, and possibly newer data. */
export type TargetState = 'empty' | 'begun' | 'done'

/** The storage that receives the data. */
export interface MoveTarget {
  /** The name of the target, as recorded in the source. It is unique among targets. */
  readonly name: string
  /** Throws if the target contains other data. */
  state(source: StorageHead): Promise<TargetState>
  /** Writes a first head that is marked as incomplete. */
  begin(head: StorageHead): Promise<void>
  fill(groups: readonly LoadedGroup[]): Promise<void>
  /** Removes the mark. */
  finish(head: StorageHead): Promise<void>
}

/** Moves the data in the order described at the top of this file. Resolves to the number of groups. */
export async function moveStorage(source: MoveSource, target: MoveTarget): Promise<number> {
  const state = await target.state(await source.head())
  if (state === 'done') {
    if (await source.isRetired()) return 0
    throw new Error(
      `${target.name} already contains data of this cluster that came from another source. Choose an empty target.`,
    )
  }
  await source.retire(target.name)
  const { head, pages } = await source.load()
  if (state === 'empty') await target.begin(head)
  let count = 0
  for await (const page of pages) {
    await target.fill(page)
    count += page.length
  }
  if (!isSameHead(await source.head(), head))
    throw new Error('The data changed while it was being moved. Run this again.')
  await target.finish(head)
  return count
}
