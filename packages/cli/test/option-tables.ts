import { backupSettings } from '../src/commands/backup.ts'
import { campaignSettings } from '../src/commands/campaign.ts'
import { certSettings } from '../src/commands/cert/command.ts'
import { controllerSettings } from '../src/commands/controller/command.ts'
import { demoSettings } from '../src/commands/demo/command.ts'
import { doctorSettings } from '../src/commands/doctor/command.ts'
import { forgetSettings } from '../src/commands/forget.ts'
import { guardSettings } from '../src/commands/guard/command.ts'
import { groupsSettings } from '../src/commands/groups.ts'
import { handoverSettings } from '../src/commands/handover/command.ts'
import { jobsSettings } from '../src/commands/jobs.ts'
import { leaderSettings } from '../src/commands/leader.ts'
import { membersSettings } from '../src/commands/members/command.ts'
import { pageSettings } from '../src/commands/page/command.ts'
import { resignSettings } from '../src/commands/resign.ts'
import { migrateSettings } from '../src/commands/migrate.ts'
import { restoreSettings } from '../src/commands/restore.ts'
import { rotateSettings } from '../src/commands/rotate.ts'
import { runSettings } from '../src/run/settings.ts'
import { flagOf, type SettingsTable } from '../src/shared/arguments/settings.ts'
import { serviceSettings, storeSettings } from '../src/shared/arguments/store-settings.ts'
import { sidecarSettings } from '../src/commands/sidecar/command.ts'
import { statusSettings } from '../src/commands/status.ts'
import { keySettings, revokeSettings, showSettings, signSettings } from '../src/commands/token.ts'
import { watchSettings } from '../src/commands/watch/command.ts'

/**
 * The settings of each command in docs/reference/cli.md. Those that all commands share are shown once. `serve` has its
 * own page.
 */
export const tables: Readonly<Record<string, SettingsTable>> = {
  run: runSettings,
  leader: leaderSettings,
  watch: watchSettings,
  page: pageSettings,
  jobs: jobsSettings,
  sidecar: sidecarSettings,
  guard: guardSettings,
  controller: controllerSettings,
  doctor: doctorSettings,
  forget: forgetSettings,
  campaign: campaignSettings,
  resign: resignSettings,
  members: membersSettings,
  handover: handoverSettings,
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

export const common: SettingsTable = { ...storeSettings, ...serviceSettings }

/** Formats settings as rows of the tables in docs/reference/cli.md. */
export function rowsOf(table: SettingsTable, but: SettingsTable = {}): string[] {
  return Object.entries(table)
    .filter(([key]) => !Object.hasOwn(but, key))
    .map(([key, { placeholder, shownDefault, help }]) => {
      const value = placeholder === undefined ? '' : ` ${placeholder.toUpperCase()}`
      return `| \`${flagOf(key)}${value}\` | ${shownDefault ?? ''} | ${help} |`.replaceAll('  ', ' ')
    })
}
