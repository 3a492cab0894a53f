import { backupSettings } from '../src/backup/settings.ts'
import { campaignSettings } from '../src/campaign/settings.ts'
import { certSettings } from '../src/cert/settings.ts'
import { controllerSettings } from '../src/controller/settings.ts'
import { demoSettings } from '../src/demo/settings.ts'
import { doctorSettings } from '../src/doctor/settings.ts'
import { forgetSettings } from '../src/forget/settings.ts'
import { groupsSettings } from '../src/groups/settings.ts'
import { jobsSettings } from '../src/jobs/settings.ts'
import { leaderSettings } from '../src/leader/settings.ts'
import { membersSettings } from '../src/members/settings.ts'
import { pageSettings } from '../src/page/settings.ts'
import { resignSettings } from '../src/resign/settings.ts'
import { migrateSettings } from '../src/migrate/settings.ts'
import { restoreSettings } from '../src/restore/settings.ts'
import { rotateSettings } from '../src/rotate/settings.ts'
import { runSettings } from '../src/run/settings.ts'
import { flagOf, type Table } from '../src/shared/arguments/settings.ts'
import { serviceSettings, storeSettings } from '../src/shared/arguments/store-settings.ts'
import { sidecarSettings } from '../src/sidecar/settings.ts'
import { statusSettings } from '../src/status/settings.ts'
import { keySettings, revokeSettings, showSettings, signSettings } from '../src/token/settings.ts'
import { watchSettings } from '../src/watch/settings.ts'

/**
 * The settings of each command in the document. Those that all commands share are shown once. `serve` has its own page.
 */
export const tables: Readonly<Record<string, Table>> = {
  run: runSettings,
  leader: leaderSettings,
  watch: watchSettings,
  page: pageSettings,
  jobs: jobsSettings,
  sidecar: sidecarSettings,
  controller: controllerSettings,
  doctor: doctorSettings,
  forget: forgetSettings,
  campaign: campaignSettings,
  resign: resignSettings,
  members: membersSettings,
  'token key': keySettings,
  'token sign': signSettings,
  'token show': showSettings,
  'token revoke': revokeSettings,
  cert: certSettings,
  status: statusSettings,
  groups: groupsSettings,
  backup: backupSettings,
  restore: restoreSettings,
  migrate: migrateSettings,
  rotate: rotateSettings,
  demo: demoSettings,
}

export const common: Table = { ...storeSettings, ...serviceSettings }

/** Formats settings as rows of the document's tables. */
export function rowsOf(table: Table, but: Table = {}): string[] {
  return Object.entries(table)
    .filter(([key]) => !Object.hasOwn(but, key))
    .map(([key, { placeholder, shownDefault, help }]) => {
      const value = placeholder === undefined ? '' : ` ${placeholder.toUpperCase()}`
      return `| \`${flagOf(key)}${value}\` | ${shownDefault ?? ''} | ${help} |`.replaceAll('  ', ' ')
    })
}
