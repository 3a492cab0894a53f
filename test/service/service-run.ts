import { spawn, type ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { end } from '../servers/process.ts'
import { root } from '../source-files.ts'

/** The path of the built command. */
export const command = join(root, 'packages/cli/bin/tenure.js')

/** A run of the command, without the environment of this machine. */
export class ServiceRun {
  readonly child: ChildProcess
  log = ''

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}, cwd?: string) {
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('TENURE_'))
    this.child = spawn(process.execPath, [command, ...args], {
      cwd,
      env: { ...Object.fromEntries(own), ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.log += text))
  }

  /** Returns the complete lines of the log, which needs `--json`. */
  lines(): Record<string, unknown>[] {
    const whole = this.log.split('\n').slice(0, -1)
    return whole.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>)
  }

  end(signal: NodeJS.Signals): Promise<void> {
    return end(this.child, signal)
  }
}
