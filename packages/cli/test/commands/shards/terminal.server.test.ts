import { pathToFileURL } from 'node:url'
import { createShards } from 'tenure/shards'
import { fileStore } from 'tenure/stores/file'
import { expect, onTestFinished, test } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { openTerminal } from '../../terminal.ts'
import { program, temporaryFolder } from '../../tenure.ts'

/** Shards move only to a process that has been present for one lease. */
const [leaseDurationMs, movesWithinMs] = [10_000, 60_000]

describeWithPrograms([programs.tmux], 'tenure shards', () => {
  test('tenure shards shows a live view on a terminal, and q restores the terminal', { timeout: 180_000 }, async () => {
    const directory = temporaryFolder()
    const store = fileStore({ directory })
    onTestFinished(() => store.close?.())
    const join = (identity: string, settled: Promise<void>) => {
      const shards = createShards({
        store,
        group: 'rooms',
        shards: 4,
        identity,
        leaseDurationMs,
        log: false,
        work: () => settled,
      })
      onTestFinished(() => shards.stop())
      void shards.start()
      return shards
    }
    const url = pathToFileURL(directory).href
    const command = `'${process.execPath}' '${program}' shards rooms --store '${url}'; echo "exit code $?"; stty -a; cat`
    const terminal = openTerminal(command, { columns: 120, rows: 24 })
    await terminal.shown(/^"rooms" has no shards\./m)
    let settle = () => {}
    const ada = join('ada', new Promise((resolve) => (settle = resolve)))
    await terminal.shown(/^4 shards, 4 owned\. Coordinator: ada$/m)
    await terminal.shown(/^ada +yes +0 +4 +0/m)
    // Half of the shards are in motion until the work of their owner has settled.
    const bob = join('bob', Promise.resolve())
    await terminal.shown(/^ {2}3: revoked from ada, which must stop its work first$/m, movesWithinMs)
    await terminal.shown(/^ada +yes +0 +2 +2/m)
    settle()
    await terminal.shown(/^bob +yes +1 +2 +0/m)
    await Promise.all([ada.stop(), bob.stop()])
    await terminal.shown(/There is no coordinator\./m)
    terminal.press('q')
    await terminal.shown(/exit code 0[^]*\bicanon\b/)
    expect(terminal.modes()).toBe('101')
  })
})
