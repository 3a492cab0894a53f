import { fileURLToPath } from 'node:url'
import type { LeaseStore } from 'tenure'
import type { RunSettings } from '../commands/run-settings.ts'
import { openChosenStore } from '../store.ts'
import type { Supervision } from './supervision.ts'

/**
 * Opens the store that was chosen. In the file store, others take over as soon as the holder is dead: here that is when
 * both this process and the supervisor are, so that they never overtake a command that is still being killed.
 */
export async function openRunStore(settings: RunSettings, supervision: Supervision): Promise<LeaseStore> {
  const store = await openChosenStore(settings)
  if (!/^file:/i.test(settings.store ?? '')) return store
  const { fileStore } = await import('tenure/stores/file')
  return fileStore({
    directory: fileURLToPath(settings.store ?? ''),
    signOfLife: (attempt, path) => (path === undefined ? undefined : supervision.openSign(attempt, path)),
  })
}
