import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print } from '../shared/output.ts'
import { migrateSettings } from './settings.ts'

/** Moves the data of a service. */
export async function migrate(flags: Sources['flags']): Promise<void> {
  const { from, to } = settingsFrom(migrateSettings, flags)
  if (from === undefined || to === undefined) throw usageError(['--from and --to are both required.'])
  const { migrateData } = await import('@tenure/service')
  const { redactedUrl } = await import('tenure/stores')
  const count = await migrateData({ from, to }).catch((error: unknown) => {
    throw unavailable(error)
  })
  const moved = count === 0 ? 'There was nothing left to move' : `Moved ${count} elections`
  print(`${moved} from ${redactedUrl(from)} to ${redactedUrl(to)}. Services no longer accept the source.`)
}
