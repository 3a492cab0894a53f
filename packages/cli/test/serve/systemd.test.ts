import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { serveSettings } from '../../src/serve/settings.ts'
import { readConfigFile } from '../../src/shared/arguments/config-file.ts'
import { choose } from '../../src/shared/arguments/settings.ts'

const folder = join(import.meta.dirname, '../../../../deploy/systemd')
const unit = readFileSync(join(folder, 'tenure.service'), 'utf8')
const valueOf = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1]

test('the settings that the unit uses are accepted, and keep the data where systemd makes room for them', () => {
  const file = readConfigFile(join(folder, 'tenure.json'))
  const settings = choose(serveSettings, { flags: {}, environment: {}, file, from: { directory: '/' } })
  expect(settings.data).toBe(`/var/lib/${valueOf('StateDirectory')}`)
  expect(valueOf('ExecStart')).toBe(
    `/usr/bin/tenure serve --config /etc/${valueOf('ConfigurationDirectory')}/tenure.json`,
  )
})

test('it is given longer to stop than it takes, and a wrong setting does not make it start again and again', () => {
  expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThan(10)
  expect(valueOf('RestartPreventExitStatus')).toBe('2')
  // Otherwise five starts within ten seconds, such as on an address that is taken, would be the last.
  expect(valueOf('StartLimitIntervalSec')).toBe('0')
})
