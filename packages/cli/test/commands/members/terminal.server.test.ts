import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { leadIn } from '../../lead-in-folder.ts'
import { openTerminal } from '../../terminal.ts'
import { program, temporaryFolder } from '../../tenure.ts'

describeWithPrograms([programs.tmux], 'tenure members', () => {
  test('tenure members shows a live view on a terminal, and q restores the terminal', async () => {
    const directory = temporaryFolder()
    const url = pathToFileURL(directory).href
    const command = `'${process.execPath}' '${program}' members jobs --store '${url}'; echo "exit code $?"; stty -a; cat`
    const terminal = openTerminal(command, { columns: 120, rows: 24 })
    await terminal.shown(/^"jobs" has no members\./m)
    const elector = await leadIn(directory, 'node-a', { present: true })
    await terminal.shown(/^node-a +leader +yes +\S+Z +0 +- +yes$/m)
    await elector.stop()
    await terminal.shown(/^"jobs" has no members\./m)
    terminal.press('q')
    await terminal.shown(/exit code 0[^]*\bicanon\b/)
    expect(terminal.modes()).toBe('101')
  })
})
