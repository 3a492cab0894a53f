import { join } from 'node:path'
import { preload, whyNoPreload } from '../../../../test/preload.ts'

/** Why there can be no faulty disk here, or nothing. */
export const noFaultyDisk = whyNoPreload('a disk that fails or loses power')

/** The environment of a process whose data file is on a disk that can be told to fail: see faulty-disk.c. */
export function faultyDisk(options: { readonly syncMs?: number; readonly seed?: number } = {}): Record<string, string> {
  return {
    LD_PRELOAD: preload(join(import.meta.dirname, 'faulty-disk.c')),
    FAULTY_DISK_FILE: 'elections.mdb',
    ...(options.syncMs !== undefined && { FAULTY_DISK_SYNC_MS: String(options.syncMs) }),
    ...(options.seed !== undefined && { FAULTY_DISK_SEED: String(options.seed) }),
  }
}
