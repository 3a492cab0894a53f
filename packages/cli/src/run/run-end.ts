import { exitCodes } from '../shared/arguments/errors.ts'
import { signalExitCode } from '../shared/shutdown.ts'

/** How a run ended: with the exit of the command, or the reason why there was none. */
export type RunEnd =
  | { readonly type: 'exited'; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  | { readonly type: 'not-started'; readonly error: string; readonly code: string | undefined }
  /** The supervisor died or did not answer. */
  | { readonly type: 'unknown' }

/** Whether the command succeeded. */
export function hasSucceeded(end: RunEnd): boolean {
  return end.type === 'exited' && end.code === 0
}

const passing = ['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE']

/** Whether the start failed for a temporary reason: too many processes or open files, or too little memory. */
export function isTemporary(end: RunEnd): boolean {
  return end.type === 'not-started' && end.code !== undefined && passing.includes(end.code)
}

/** The exit code of `tenure run` after such an end. */
export function exitCodeOf(end: RunEnd): number {
  if (end.type === 'not-started') return end.code === 'ENOENT' ? exitCodes.notFound : exitCodes.notExecutable
  if (end.type === 'unknown') return exitCodes.failed
  return end.code ?? signalExitCode(end.signal ?? 'SIGKILL')
}

export function endText(end: RunEnd): string {
  if (end.type === 'not-started') return `the command did not start: ${end.error}`
  if (end.type === 'unknown') return 'the supervisor died or did not answer, so the command was killed'
  return end.signal ? `the command was ended by ${end.signal}` : `the command exited with ${end.code}`
}
