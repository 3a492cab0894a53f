import { demoSettings } from '../src/commands/demo.ts'
import { doctorSettings } from '../src/commands/doctor.ts'
import { leaderSettings } from '../src/commands/leader.ts'
import { runSettings } from '../src/commands/run-settings.ts'
import { campaignSettings, listSettings, resignSettings } from '../src/commands/service.ts'
import { sidecarSettings } from '../src/commands/sidecar.ts'
import { watchSettings } from '../src/commands/watch.ts'
import { flagOf, type Table } from '../src/settings.ts'
import { serviceSettings, storeSettings } from '../src/store-settings.ts'

/** What each command of the document can be told; what all of them can is shown once. `serve` has a page of its own. */
export const tables: Readonly<Record<string, Table>> = {
  run: runSettings,
  leader: leaderSettings,
  watch: watchSettings,
  sidecar: sidecarSettings,
  doctor: doctorSettings,
  campaign: campaignSettings,
  resign: resignSettings,
  members: listSettings,
  groups: listSettings,
  demo: demoSettings,
}

export const common: Table = { ...storeSettings, ...serviceSettings }

/** As the document has them. */
export function rowsOf(table: Table, but: Table = {}): string[] {
  return Object.entries(table)
    .filter(([key]) => !Object.hasOwn(but, key))
    .map(([key, { placeholder, shownDefault, help }]) => {
      const value = placeholder === undefined ? '' : ` ${placeholder.toUpperCase()}`
      return `| \`${flagOf(key)}${value}\` | ${shownDefault ?? ''} | ${help} |`.replaceAll('  ', ' ')
    })
}
