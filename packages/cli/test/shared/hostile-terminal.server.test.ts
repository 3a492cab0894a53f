import { expect, test } from 'vitest'
import { programs } from '../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { openTerminal } from '../terminal.ts'
import { program } from '../tenure.ts'
import { strange } from '../fake-service.ts'

describeWithPrograms([programs.tmux], 'a live view of a store that is broken', () => {
  test('q ends a live view at once when the store does not answer from the start', async () => {
    const url = await strange(() => {})
    const command = `'${process.execPath}' '${program}' watch jobs --store '${url}' --timeout 1h; echo "exit code $?"; cat`
    const terminal = openTerminal(command)
    await terminal.shown(/^leader {2}nobody$/m)
    terminal.press('q')
    await terminal.shown(/exit code 0/)
  })

  test('q ends a live view at once when the store stops answering later', async () => {
    let looks = 0
    const url = await strange((_, answer) => {
      looks += 1
      if (looks === 1) answer({ leader: null, highest_term: 0 })
    })
    const command = `'${process.execPath}' '${program}' watch jobs --store '${url}' --timeout 1h; echo "exit code $?"; cat`
    const terminal = openTerminal(command)
    await expect.poll(() => looks, { timeout: 20_000 }).toBeGreaterThan(1)
    terminal.press('q')
    await terminal.shown(/exit code 0/)
  })
})
