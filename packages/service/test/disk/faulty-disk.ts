import { join } from 'node:path'
import { preload } from '../../../../test/preload.ts'

/** The environment of a process whose data file is on a disk that can be made to fail. See faulty-disk.c. */
export function faultyDisk(options: { readonly syncMs?: number; readonly seed?: number } = {}): Record<string, string> {
  return {
    LD_PRELOAD: preload(join(import.meta.dirname, 'faulty-disk.c')),
    FAULTY_DISK_FILE: 'elections.mdb',
    ...(options.syncMs !== undefined && { FAULTY_DISK_SYNC_MS: String(options.syncMs) }),
    ...(options.seed !== undefined && { FAULTY_DISK_SEED: String(options.seed) }),
  }
}
