import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { leadIn } from '../../lead-in-folder.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { openTerminal } from '../../terminal.ts'
import { ask, campaign, program, serve, temporaryFolder } from '../../tenure.ts'

describeWithPrograms([programs.tmux], 'tenure watch', () => {
  test('tenure watch shows a live view on a terminal, and q restores the terminal', async () => {
    const directory = temporaryFolder()
    const url = pathToFileURL(directory).href
    const command = `'${process.execPath}' '${program}' watch jobs --store '${url}'; echo "exit code $?"; stty -a; cat`
    const terminal = openTerminal(command, { columns: 80, rows: 24 })
    await terminal.shown(/^leader {2}nobody$/m)
    expect(terminal.modes()).toBe('010')
    const elector = await leadIn(directory, 'node-a', { leaseDurationMs: 30_000 })
    await terminal.shown(/^leader {2}node-a\nterm {4}1\nlease {3}█+░* \d+\.\ds of 30\.0s$/m)
    await elector.stop()
    await terminal.shown(/^leader {2}nobody\n {8}node-a led last, in term 1$/m)
    await terminal.shown(/What happened[^]*node-a was elected[^]*node-a no longer leads jobs: term 1 has ended$/m)
    terminal.press('q')
    await terminal.shown(/exit code 0[^]*\bicanon\b/)
    expect(terminal.screen()).not.toMatch(/-icanon|-echo\b/)
    expect(terminal.modes()).toBe('101')
  })

  test('tenure watch fits into a small window', async () => {
    const directory = temporaryFolder()
    await leadIn(directory, 'node-a', { leaseDurationMs: 30_000 })
    const command = `'${process.execPath}' '${program}' watch jobs --store '${pathToFileURL(directory).href}'; cat`
    const terminal = openTerminal(command, { columns: 40, rows: 10 })
    await terminal.shown(/^Tenure: who leads jobs\n[^]*^leader {2}node-a$[^]*node-a leads jobs[^]*^q quit$/m)
  })

  test('tenure watch says "1 time" and "2 times"', async () => {
    const { url } = await serve(temporaryFolder())
    await campaign(url, 'jobs', 'node-a')
    const terminal = openTerminal(`'${process.execPath}' '${program}' watch jobs --store '${url}'; cat`)
    await terminal.shown(/renewed 0 times since/)
    const renew = () => ask(`${url}/v1/groups/jobs/renew`, { node_id: 'node-a', term: 1, extend_by_ms: 30_000 })
    await renew()
    await terminal.shown(/renewed 1 time since/)
    await renew()
    await terminal.shown(/renewed 2 times since/)
  })

  test('tenure watch restores the terminal when a signal ends it', async () => {
    const folder = temporaryFolder()
    const pidFile = join(folder, 'pid')
    const watch = `exec "${process.execPath}" "${program}" watch jobs --store "${pathToFileURL(folder).href}"`
    const terminal = openTerminal(`sh -c 'echo $$ > "${pidFile}"; ${watch}'; echo "code $?"; cat`)
    await terminal.shown(/^leader {2}nobody$/m)
    process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGTERM')
    await terminal.shown(/code 143/)
    expect(terminal.modes()).toBe('101')
  })
})
