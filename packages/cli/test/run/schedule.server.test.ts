import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, vi } from 'vitest'
import { faketimeEnvironment } from '../../../../test/chaos/faketime.ts'
import { pathOf } from '../../../../test/servers/find-program.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { scene, type Scene } from './scene.ts'
import { begun, expectEachOnce, expectRuns, quick } from './scheduled-runs.ts'

describeWithPrograms([programs.faketime], '--every', () => {
  const ahead = (on: Scene, name: string, offset: string) => {
    const file = join(on.folder, name)
    writeFileSync(file, `${offset}\n`)
    return { env: faketimeEnvironment(pathOf(programs.faketime), file) }
  }

  test(
    '--every runs each scheduled time once on machines whose clocks are seconds apart',
    { timeout: 90_000 },
    async () => {
      const on = scene()
      const args = ['--ttl', '2s', '--every', '*/2 * * * * *']
      const fast = on.work(args, quick, ahead(on, 'fast', '+3'))
      await expectRuns(on, 2)
      const slow = on.work(args, quick, ahead(on, 'slow', '-1'))
      await vi.waitUntil(() => slow.output.error.includes('waiting'), { timeout: 20_000 })
      fast.child.kill('SIGTERM')
      await fast.ended
      const before = begun(on).length
      // The machine waits until its own clock reaches the time of the other one.
      await expectRuns(on, before + 2)
      on.work(args, quick, ahead(on, 'third', '+2'))
      slow.child.kill('SIGKILL')
      await expectRuns(on, before + 5)
      expectEachOnce(on)
    },
  )
})
