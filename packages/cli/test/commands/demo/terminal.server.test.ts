import { expect, test } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { openTerminal } from '../../terminal.ts'
import { program } from '../../tenure.ts'
import { temporaryFolder, pidsIn, expectNothingLeft } from '../../demo-scene.ts'

describeWithPrograms([programs.tmux], 'the demo in a terminal', () => {
  test('the demo shows a takeover when k is pressed, and restores the terminal when q is pressed', async () => {
    const folder = temporaryFolder()
    const command = `'${process.execPath}' '${program}' demo --harm-every 1m; echo "exit code $?"; stty -a; cat`
    const terminal = openTerminal(command, { env: { TMPDIR: folder } })
    const { shown } = terminal

    await shown(/node-. +\d+ +LEADER +1 +[█░]+ \d\.\d s/)
    await shown(/(node-. +\d+ +standby[^]*){2}/)
    expect(terminal.modes()).toBe('010')

    terminal.press('k')
    await shown(/killed (node-.) \(term 1\) -> node-. leads term 2 after \d+ ms/)
    await shown(/node-. +\d+ +LEADER +2 /)
    await shown(/(starts as process[^]*){4}/)
    terminal.press('c')
    await shown(/node-. +\d+ +cut off +2 /)
    await shown(/node-.: cut off, does not lead/)
    await shown(/cut off (node-.) \(term 2\) -> node-. leads term 3 after \d+ ms/)
    await shown(/node-. reaches its store again after 4\.5 s/)
    terminal.press('p')
    await shown(/node-. +\d+ +paused +3 /)
    const pids = pidsIn(terminal.screen())

    terminal.press('q')
    await shown(/2 takeovers in [^]*exit code 0[^]*\bicanon\b/)
    expect(terminal.screen()).not.toMatch(/-icanon|-echo\b/)
    expect(terminal.modes()).toBe('101')
    expectNothingLeft(folder, pids)
  })

  test('the demo shows every line in full on a terminal of 80 columns and 24 rows', async () => {
    const command = `'${process.execPath}' '${program}' demo --harm-every 2s`
    const terminal = openTerminal(command, { columns: 80, rows: 24, env: { TMPDIR: temporaryFolder() } })
    await terminal.shown(/^Tenure: .* there is no server\)$/m)
    await terminal.shown(/^node-.: leads term 1: \d\.\d s unless renewed$/m)
    await terminal.shown(/^node-.: waits for node-., term 1: \d\.\d s unless renewed$/m)
    await terminal.shown(/automatic: kill in \d\.\d s$/m)
    await terminal.shown(/killed node-. \(term 1\) -> node-. leads term 2 after \d+ ms$/m)
    await terminal.shown(/paused node-., the leader of term 2: its lease must expire first$/m)
    expect(terminal.screen().split('\n')[0]).toMatch(/^Tenure: /)
    terminal.press('q')
  })
})
