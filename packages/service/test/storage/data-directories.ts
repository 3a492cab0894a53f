/** Data directories that are written and read without a service. */
import { randomUUID } from 'node:crypto'
import { LmdbStorage, type LmdbStorageOptions } from '../../src/storage/lmdb-storage.ts'
import type { Batch, LoadedGroup, StoredGroup, Storage, StorageHead } from '../../src/storage/storage.ts'

export function openStorage(directory: string, more: Partial<LmdbStorageOptions> = {}): Promise<LmdbStorage> {
  return LmdbStorage.open({ directory, newId: () => 'cluster', ...more })
}

/** The batch that follows a head. */
export function batchAfter(head: StorageHead, groups: readonly StoredGroup[], more: Partial<StorageHead> = {}): Batch {
  return { head: { ...head, seq: head.seq + 1, batch: randomUUID(), ...more }, groups }
}

/** Appends all groups in one batch. */
export async function write(storage: Storage, ...groups: StoredGroup[]): Promise<void> {
  const head = await storage.head()
  const appended = await storage.append(head, batchAfter(head, groups))
  if (appended !== 'done') throw new Error(appended)
}

/** All stored groups. */
export async function read(storage: Storage): Promise<LoadedGroup[]> {
  const found: LoadedGroup[] = []
  for await (const page of (await storage.load()).pages) found.push(...page)
  return found
}
