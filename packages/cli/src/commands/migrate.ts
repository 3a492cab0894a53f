import type { Declaration } from '../shared/arguments/declare.ts'
import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { setting, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { textOf } from '../shared/arguments/values.ts'
import { loadServiceTools } from '../shared/optional-packages.ts'
import { print } from '../shared/output.ts'

export const migrateSettings = {
  from: setting({ placeholder: 'place', help: 'the data directory, or the URL of an etcd or PostgreSQL' }, textOf),
  to: setting({ placeholder: 'place', help: 'the same kinds of place; it must be empty' }, textOf),
}

/** `tenure migrate`: moves the data of a service. */
export const migrateCommand: Declaration = {
  name: 'migrate',
  summary: 'Move the data of a service to another directory, etcd or PostgreSQL.',
  settings: migrateSettings,
  examples: [
    'tenure migrate --from /var/lib/tenure --to etcd://10.0.0.1:2379/tenure',
    'tenure migrate --from etcd://10.0.0.1:2379/tenure --to /var/lib/tenure',
  ],
  notes: [
    'Stop the service, or all replicas, first. All terms, definitions, checkpoints and the cluster id are kept.',
    'The source is marked as moved first, and no service uses it from then on. If the command is interrupted, run it again.',
  ],
  exitCodes: '0 on success, 2 for invalid options, 69 if the source or the target cannot be used',
  run: (flags) => migrate(flags),
}

/** Moves the data of a service. */
async function migrate(flags: Sources['flags']): Promise<void> {
  const { from, to } = settingsFrom(migrateSettings, flags)
  if (from === undefined || to === undefined) throw usageError(['--from and --to are both required.'])
  const { migrateData } = await loadServiceTools('tenure migrate')
  const { redactedUrl } = await import('tenure/stores')
  const count = await migrateData({ from, to }).catch((error: unknown) => {
    throw unavailable(error)
  })
  const moved = count === 0 ? 'There was nothing left to move' : `Moved ${count} elections`
  print(`${moved} from ${redactedUrl(from)} to ${redactedUrl(to)}. Services no longer accept the source.`)
}
