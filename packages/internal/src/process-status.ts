/** The state of a process according to the kernel. Linux only. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** One line of /proc/<id>/stat. */
export interface ProcessEntry {
  readonly id: number
  readonly parent: number
  readonly group: number
  readonly session: number
  /** When the process started, in the kernel's units. It distinguishes the process from a later one with the same id. */
  readonly startedAt: string
  readonly state: string
}

/** Whether /proc shows the processes of our own PID namespace. */
export function canSeeProcesses(): boolean {
  return process.platform === 'linux' && linkOf('/proc/self') === String(process.pid)
}

/**
 * Returns undefined if the process does not exist, and `unknown` if that is unclear: after any other error, such as
 * too many open files, and where /proc hides the processes of other users (`hidepid`).
 */
export function processEntry(id: number): ProcessEntry | 'unknown' | undefined {
  try {
    const text = readFileSync(`/proc/${id}/stat`, 'utf8')
    // The process name, in parentheses, may contain any character.
    const [state = '', parent, group, session, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const startedAt = rest[15] ?? ''
    return { id, parent: Number(parent), group: Number(group), session: Number(session), startedAt, state }
  } catch (error) {
    return isAbsence(error) && !exists(id) ? undefined : 'unknown'
  }
}

/** Whether the kernel knows a process, even one that /proc hides. */
function exists(id: number): boolean {
  try {
    return process.kill(id, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Whether any thread of a process is running. Its main thread may end before its other threads. */
export function isRunning({ id, state }: ProcessEntry): boolean {
  if (!'ZXx'.includes(state)) return true
  try {
    return readdirSync(`/proc/${id}/task`).length > 1
  } catch (error) {
    return !isAbsence(error)
  }
}

function isAbsence(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOENT' || code === 'ESRCH'
}

/** The PID namespace of this process. Process ids of another namespace have no meaning here. */
export function processNamespace(): string | undefined {
  return linkOf('/proc/self/ns/pid')
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}
