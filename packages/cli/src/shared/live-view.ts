import { systemClock } from '@tenure/internal/clock'
import { pause } from '@tenure/internal/pause'
import { commandErrorOf } from './failures.ts'
import { printable } from './output.ts'
import { signalExitCode } from './shutdown.ts'
import { bold, color, interruptKey, listenToKeys, Screen } from './terminal.ts'

const refreshMs = 1_000

/** Shows lines on a terminal, and reads them again every second, until the user presses q. */
export async function showLive(title: string, linesNow: () => Promise<readonly string[]>): Promise<void> {
  // A store that does not answer at first is probably the wrong one, so the first call comes before the screen.
  let lines = await linesNow()
  let trouble = ''
  const screen = new Screen()
  const ended = new AbortController()
  const draw = () => {
    const head = [bold(`Tenure: ${printable(title)}`), '']
    if (trouble !== '') head.push(color('red', printable(trouble)), '')
    screen.draw([...head, ...lines], [], ['', `${bold('q')} quit`])
  }
  screen.open()
  listenToKeys((key) => {
    if (key === 'q' || key === interruptKey) ended.abort()
  })
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(signalExitCode(signal)))
  }
  process.stdout.on('resize', draw)
  try {
    while (!ended.signal.aborted) {
      draw()
      await pause(systemClock, refreshMs, ended.signal)
      if (ended.signal.aborted) break
      try {
        lines = await linesNow()
        trouble = ''
      } catch (error) {
        trouble = `${commandErrorOf(error).message} Retrying.`
      }
    }
  } finally {
    screen.close()
    if (process.stdin.isTTY) process.stdin.setRawMode(false).pause()
  }
}
