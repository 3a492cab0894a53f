import { readdirSync, readFileSync } from 'node:fs'

/**
 * All processes of one command: the session that its first process leads. Children stay in it, also those that are put
 * into process groups of their own, as `timeout` and shells with job control do; only who starts a new session leaves.
 */
export interface Session {
  /** The process id of the first one, which is also that of its group. */
  readonly id: number
  /** When it was started, as the kernel counts; undefined where that is not told (not Linux). */
  readonly startedAt: string | undefined
}

interface Process {
  readonly id: number
  readonly group: number
  readonly session: number
  readonly startedAt: string
  readonly isAlive: boolean
  readonly isStopped: boolean
}

/** The session that a process leads, which was just started. */
export function sessionOf(id: number): Session {
  return { id, startedAt: look(id)?.startedAt }
}

/** Sends a signal to every process of a session. Gives the error if somebody may not be signalled. */
export function signalSession(session: Session, signal: NodeJS.Signals): Error | undefined {
  return signalGroups(members(session) ?? [{ group: session.id }], signal)
}

/** Lets go on who is stopped: it would not hear anything else. Who is not sees nothing of it, where that is known. */
export function continueStopped(session: Session): void {
  const stopped = members(session)?.filter(({ isStopped }) => isStopped)
  signalGroups(stopped ?? [{ group: session.id }], 'SIGCONT')
}

/** By groups: the kernel signals a group as a whole, so nobody in it can fork out of the way. */
function signalGroups(processes: readonly { group: number }[], signal: NodeJS.Signals): Error | undefined {
  const groups = new Set(processes.map(({ group }) => group))
  let refusal: Error | undefined
  for (const group of groups) {
    try {
      process.kill(-group, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') refusal = error as Error
    }
  }
  return refusal
}

/** Whether nobody of a session runs any more. A zombie does not run: who should have waited for it may be stopped. */
export function isGone(session: Session): boolean {
  const first = look(session.id)
  if (first?.isAlive && first.startedAt === session.startedAt) return false
  const found = members(session)
  if (found) return found.length === 0
  try {
    process.kill(-session.id, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/** Sessions of processes that were started with this in their environment, by whom and whenever it was. */
export function sessionsMarked(variable: string, value: string): Session[] {
  const mark = `${variable}=${value}`
  const ids = new Set<number>()
  for (const id of processIds() ?? []) {
    try {
      if (readFileSync(`/proc/${id}/environ`, 'utf8').split('\0').includes(mark)) ids.add(look(id)?.session ?? id)
    } catch {
      // It has ended, or belongs to somebody else.
    }
  }
  return [...ids].map((id) => sessionOf(id))
}

/** Those that run; undefined where the system does not tell. */
function members({ id, startedAt }: Session): Process[] | undefined {
  const ids = processIds()
  if (!ids || startedAt === undefined) return undefined
  // The number is given away again only after the whole session has ended.
  const first = look(id)
  if (first && first.startedAt !== startedAt) return []
  return ids.flatMap((each) => look(each) ?? []).filter(({ session, isAlive }) => session === id && isAlive)
}

function processIds(): number[] | undefined {
  if (process.platform !== 'linux') return undefined
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger)
  } catch {
    return undefined
  }
}

function look(id: number): Process | undefined {
  try {
    const text = readFileSync(`/proc/${id}/stat`, 'utf8')
    // The name, in parentheses, may hold anything.
    const [state = '', , group, session, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const isAlive = !'ZXx'.includes(state) || readdirSync(`/proc/${id}/task`).length > 1
    const isStopped = state === 'T'
    return { id, group: Number(group), session: Number(session), startedAt: rest[15] ?? '', isAlive, isStopped }
  } catch {
    return undefined
  }
}
