import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pathOf } from '../../../../../test/servers/find-program.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { temporaryFolder } from '../../tenure.ts'

const folder = join(import.meta.dirname, '../../../../../deploy/systemd')
const unit = readFileSync(join(folder, 'tenure.service'), 'utf8')

describeWithPrograms([programs.systemd], 'systemd', () => {
  test('systemd-analyze finds no errors in the unit, and rates its exposure as low', () => {
    const path = join(temporaryFolder(), 'tenure.service')
    // systemd checks that the program exists, but the program is not installed here.
    writeFileSync(path, unit.replace('/usr/bin/tenure', process.execPath))
    const { status, stderr } = spawnSync(pathOf(programs.systemd), ['verify', path], { encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const told = execFileSync(pathOf(programs.systemd), ['security', '--offline=true', '--threshold=20', path], {
      encoding: 'utf8',
    })
    expect(told).toContain('Overall exposure level')
  })
})
