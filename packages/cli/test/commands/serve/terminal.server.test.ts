import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { execFileSync } from 'node:child_process'
import { pathOf } from '../../../../../test/servers/find-program.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { program, temporaryFolder } from '../../tenure.ts'

describeWithPrograms([programs.tmux], 'a service in a window', () => {
  test('closing the terminal window ends the service, even though SIGHUP otherwise reloads it', async () => {
    const folder = temporaryFolder()
    const log = join(folder, 'log')
    const command = `exec '${process.execPath}' '${program}' serve --data '${folder}/data' --listen 127.0.0.1:0 2> '${log}'`
    const run = (...args: string[]) =>
      execFileSync(pathOf(programs.tmux), ['-S', join(folder, 'socket'), '-f', '/dev/null', ...args])
    run('new-session', '-d', command)
    const said = () => readFileSync(log, 'utf8')
    await vi.waitUntil(() => existsSync(log) && said().includes('is listening'), { timeout: 20_000 })
    run('kill-server')
    await vi.waitUntil(() => said().includes('stopped'), { timeout: 10_000 })
    expect(said()).toContain('stopping signal=SIGHUP')
  })
})
