import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { faketimeEnvironment } from '../chaos/faketime.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from '../service/serve.ts'
import { newRecipeFolder, waitOptions, documentBlock, type RecipeFolder, slowTest } from './recipe-folder.ts'

const heading = 'A cron job once per fleet'

async function fleet(): Promise<RecipeFolder> {
  const service = await serve()
  onTestFinished(() => service.stop())
  const fleet = newRecipeFolder({ TENURE_STORE: service.url, TENURE_TTL: '4s' })
  fleet.put('report.sh', '#!/bin/sh\necho "$TENURE_SCHEDULED_AT on $TENURE_IDENTITY" >> "$FOLDER/runs"\n')
  return fleet
}

describeWithPrograms([programs.faketime], 'a cron job once per fleet', () => {
  test(
    'cron: one machine runs the job at its time, and a machine whose clock is late does not run it again',
    slowTest,
    async () => {
      const { folder, lines, machine } = await fleet()
      const aheadMs = Date.parse('2026-07-01T02:59:48+02:00') - Date.now()
      const machineAt = (identity: string, lateMs: number) => {
        const file = join(folder, `clock-${identity}`)
        writeFileSync(file, `${((aheadMs - lateMs) / 1_000).toFixed(3)}\n`.replace(/^(?=\d)/, '+'))
        const env = { ...faketimeEnvironment(pathOf(programs.faketime), file), TENURE_IDENTITY: identity }
        return machine(documentBlock(heading, 'sh'), env)
      }
      const first = machineAt('a', 0)
      await first.says('leads "nightly-report" in term 1')
      const late = machineAt('b', 20_000)
      await late.says('a leads "nightly-report"')
      await vi.waitUntil(() => lines('runs').length > 0, waitOptions)
      first.child.kill('SIGTERM')
      expect(await first.ended).toBe(0)
      // On the clock of the late machine it is not three o'clock yet, but the machine knows about the run.
      await late.says('the next run is at 2026-07-02T01:00:00.000Z')
      late.child.kill('SIGTERM')
      expect(await late.ended).toBe(0)
      expect(lines('runs')).toEqual(['2026-07-01T01:00:00.000Z on a'])
    },
  )
})

test('cron: one of three machines runs the job that cron starts on all of them', slowTest, async () => {
  const { lines, machine, folder } = await fleet()
  const settings = documentBlock(heading, 'text').split('\n')
  const job = settings.pop() ?? ''
  expect(settings.map((line) => line.split('=')[0])).toEqual(['PATH', 'TENURE_STORE', 'TENURE_STORE_PASSWORD_FILE'])
  const [, command = ''] = /^(?:\S+ +){5}(tenure .*)$/.exec(job) ?? []
  const here = command.replace('/usr/local/bin/report', join(folder, 'report.sh'))
  expect(here).not.toBe(command)
  const machines = ['a', 'b', 'c'].map((identity) => machine(here, { TENURE_IDENTITY: identity }))
  expect(await Promise.all(machines.map(({ ended }) => ended))).toEqual([0, 0, 0])
  // cron mails everything that the command prints.
  expect(machines.map(({ output }) => output.out + output.error)).toEqual(['', '', ''])
  expect(lines('runs')).toHaveLength(1)
})
