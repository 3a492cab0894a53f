import { spawn, type ChildProcess } from 'node:child_process'

/** Ends processes when the test run has died. */
export interface Watchdog {
  /** Guards this process until it ends. */
  guard(child: ChildProcess): void
  dismiss(): void
}

/**
 * A test run that is killed cannot end its servers. This shell can, because its input closes when the process that
 * started it ends, for any reason. It reads each process id, and an empty line when that process has ended.
 */
export function startWatchdog(stopSignal: NodeJS.Signals, directory?: string): Watchdog {
  const script = `while read -r line; do pid=$line; done
    if [ "$pid" ]; then kill -s "$1" "$pid"; kill -s CONT "$pid"; sleep 1; kill -s KILL "$pid"; fi
    if [ "$2" ]; then rm -rf "$2"; fi`
  const args = ['-c', script, 'sh', stopSignal.replace('SIG', ''), directory ?? '']
  const shell = spawn('sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  // A watchdog that has ended or could not be started must not end the tests.
  shell.on('error', () => {})
  shell.stdin.on('error', () => {})
  return {
    guard(child) {
      if (child.pid === undefined) return
      shell.stdin.write(`${child.pid}\n`)
      child.once('exit', () => shell.stdin.write('\n'))
    },
    dismiss() {
      shell.kill('SIGKILL')
      shell.stdin.destroy()
    },
  }
}
