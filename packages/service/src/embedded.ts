import type { Clock } from 'tenure'
import { LocalGroups, type LocalGroupsOptions } from './groups/local-groups.ts'
import { ServingClock } from './groups/serving-clock.ts'
import { LmdbStorage } from './storage/lmdb-storage.ts'
import { momentOf, moveGraceMs, Ownership } from './storage/ownership.ts'

/** What {@link openEmbedded} takes. */
export interface EmbeddedOptions extends Omit<LocalGroupsOptions, 'storage' | 'authority' | 'clock' | 'graceMs'> {
  readonly directory: string
  readonly clock: Clock
  /** The data come from a backup: skip all terms that may have been granted since, once. */
  readonly afterRestore: boolean
  readonly allowNetworkFilesystem?: boolean | undefined
  /** Called when it can no longer be shown that the directory is owned, and with nothing when it can again. */
  readonly onOwnership?: ((failure: Error | undefined) => void) | undefined
}

/** Groups on a directory of this machine. Nothing is answered before `groups.serve()`; `groups.close()` closes all. */
export async function openEmbedded(
  options: EmbeddedOptions,
): Promise<{ readonly groups: LocalGroups; readonly storage: LmdbStorage }> {
  const { directory, afterRestore, allowNetworkFilesystem } = options
  const provenAt = momentOf(options.clock)
  const storage = await LmdbStorage.open({
    directory,
    newId: () => options.clock.randomId(),
    restored: afterRestore ? 'once' : undefined,
    allowNetworkFilesystem,
  })
  const clock = new ServingClock(options.clock)
  const ownership = new Ownership({
    clock: options.clock,
    servedMs: () => clock.monotonicMs() - clock.stalledMs,
    provenAt,
    prove: () => storage.prove(),
    onChange: options.onOwnership,
  })
  storage.startProofs()
  ownership.start()
  try {
    const groups = await LocalGroups.open({ ...options, storage, authority: ownership, clock, graceMs: moveGraceMs })
    return { groups, storage }
  } catch (error) {
    clock.stop()
    await ownership.stop()
    await storage.close()
    throw storage.unusable(error)
  }
}
