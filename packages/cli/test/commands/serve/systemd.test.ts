import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { serveSettings } from '../../../src/commands/serve/settings.ts'
import { readConfigFile } from '../../../src/shared/arguments/config-file.ts'
import { resolveSettings } from '../../../src/shared/arguments/settings.ts'

const folder = join(import.meta.dirname, '../../../../../deploy/systemd')
const unit = readFileSync(join(folder, 'tenure.service'), 'utf8')
const valueOf = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1]

test('the settings of the systemd unit are valid and keep the data in its state directory', () => {
  const file = readConfigFile(join(folder, 'tenure.json'))
  const settings = resolveSettings(serveSettings, { flags: {}, environment: {}, file, from: { directory: '/' } })
  expect(settings.data).toBe(`/var/lib/${valueOf('StateDirectory')}`)
  expect(valueOf('ExecStart')).toBe(
    `/usr/bin/tenure serve --config /etc/${valueOf('ConfigurationDirectory')}/tenure.json`,
  )
})

test('the systemd unit allows more time to stop than the service takes, and does not restart it after an invalid setting', () => {
  expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThan(10)
  expect(valueOf('RestartPreventExitStatus')).toBe('2')
  // Otherwise systemd would give up after five starts within ten seconds, for example while the address is in use.
  expect(valueOf('StartLimitIntervalSec')).toBe('0')
})
