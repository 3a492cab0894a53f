import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

const stoppedWithinMs = 5_000

/** Returns whether the process was started and has not ended. */
export function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null
}

/** Ends a process with this signal, and with SIGKILL if it does not end. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!isRunning(child)) return
  const exited = once(child, 'exit')
  child.kill(signal)
  // A paused process handles only SIGKILL.
  child.kill('SIGCONT')
  const insist = setTimeout(() => child.kill('SIGKILL'), stoppedWithinMs)
  await exited
  clearTimeout(insist)
}
