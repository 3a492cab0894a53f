import type { Clock } from 'tenure'
import { LocalGroups, type LocalGroupsOptions } from './groups/local-groups.ts'
import { ServingClock } from './groups/serving-clock.ts'
import { LmdbStorage } from './storage/lmdb-storage.ts'
import { momentOf, moveGraceMs, Ownership } from './storage/ownership.ts'

/** The options of {@link openEmbedded}. */
export interface EmbeddedOptions extends Omit<LocalGroupsOptions, 'storage' | 'authority' | 'clock' | 'graceMs'> {
  readonly directory: string
  readonly clock: Clock
  readonly allowNetworkFilesystem?: boolean | undefined
  /**
   * Called with the failure when ownership of the directory can no longer be proven, and with undefined once it can
   * again.
   */
  readonly onOwnership?: ((failure: Error | undefined) => void) | undefined
}

/**
 * Opens groups in a local directory. They answer no request before `groups.serve()`. `groups.close()` closes
 * everything.
 */
export async function openEmbedded(
  options: EmbeddedOptions,
): Promise<{ readonly groups: LocalGroups; readonly storage: LmdbStorage }> {
  const { directory, allowNetworkFilesystem } = options
  const provenAt = momentOf(options.clock)
  const storage = await LmdbStorage.open({
    directory,
    newId: () => options.clock.randomId(),
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
