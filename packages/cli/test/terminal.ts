import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { pathOf } from '../../../test/servers/find-program.ts'
import { programs } from '../../../test/servers/programs.ts'

export interface Terminal {
  screen(): string
  press(key: string): void
  /** Flags for a visible cursor, the alternate screen, and line wrapping. */
  modes(): string
  /** Waits until the screen matches. */
  shown(pattern: RegExp, withinMs?: number): Promise<void>
}

/** Opens a terminal in its own tmux server. For suites with `programs.tmux`. */
export function openTerminal(
  command: string,
  { columns = 120, rows = 40, env = {} }: { columns?: number; rows?: number; env?: Record<string, string> } = {},
): Terminal {
  const path = pathOf(programs.tmux)
  const socketFolder = mkdtempSync(join(tmpdir(), 'tenure-tmux-'))
  const call = (...args: string[]) =>
    execFileSync(path, ['-S', join(socketFolder, 'socket'), '-f', '/dev/null', ...args], {
      encoding: 'utf8',
      env: { ...process.env, LC_ALL: 'C.UTF-8', ...env },
    })
  call('new-session', '-d', '-x', `${columns}`, '-y', `${rows}`, command)
  onTestFinished(() => {
    try {
      call('kill-server')
    } catch {
      // The tmux server exits with its last program, which the test may have just ended.
    }
    rmSync(socketFolder, { recursive: true, force: true })
  })
  const screen = () => call('capture-pane', '-p')
  return {
    screen,
    press: (key) => void call('send-keys', key),
    modes: () => call('display-message', '-p', '#{cursor_flag}#{alternate_on}#{wrap_flag}').trim(),
    async shown(pattern, withinMs = 20_000) {
      await vi
        .waitUntil(() => pattern.exec(screen()), { timeout: withinMs, interval: 50 })
        .catch(() => {
          throw new Error(`${pattern} never appeared:\n${screen()}`)
        })
    },
  }
}
