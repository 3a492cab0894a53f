import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/**
 * All processes of one command: the session that its first process leads. Children stay in it, even those that are put
 * into process groups of their own, as by `timeout` and shells with job control; only a process that starts a new session
 * leaves it.
 */
export interface Session {
  /** The id of the first process, which is also the id of its group. */
  readonly id: number
  /** When it was started, as the kernel counts; undefined where that is unknown. */
  readonly startedAt: string | undefined
}

interface Process {
  readonly id: number
  readonly parent: number
  readonly group: number
  readonly session: number
  readonly startedAt: string
  readonly state: string
}

interface Found {
  /** The processes that run. */
  readonly processes: readonly Process[]
  /** Whether there cannot be others. */
  readonly isComplete: boolean
}

/** Whether processes can be listed: on Linux, with a /proc that counts them as we do. */
const canList = process.platform === 'linux' && ownId() === String(process.pid)

/** A list that is still incomplete after this many tries is taken again later. */
const mostRounds = 5

/** The session that a process leads which was just started. */
export function sessionOf(id: number): Session {
  const first = look(id)
  return { id, startedAt: first === 'unknown' ? undefined : first?.startedAt }
}

/** Sends a signal to every process of a session. Gives the error if we may not signal one of them. */
export function signalSession(session: Session, signal: NodeJS.Signals): Error | undefined {
  if (isGivenAway(session)) return undefined
  // First to the group that most are in: that reaches processes that fork faster than they can be listed.
  const refusal = signalGroup(session.id, signal)
  const others = (members(session)?.processes ?? []).filter(({ group }) => group !== session.id)
  return signalGroups(others, signal) ?? refusal
}

/** Continues stopped processes, which would not see any other signal. Where states are known, no others get SIGCONT. */
export function continueStopped(session: Session): void {
  const stopped = members(session)?.processes.filter(({ state }) => state === 'T')
  signalGroups(stopped ?? [{ group: session.id }], 'SIGCONT')
}

/** By groups: the kernel signals a group as a whole, so no process in it can escape by forking. */
function signalGroups(processes: readonly { group: number }[], signal: NodeJS.Signals): Error | undefined {
  let refusal: Error | undefined
  for (const group of new Set(processes.map((each) => each.group))) refusal = signalGroup(group, signal) ?? refusal
  return refusal
}

function signalGroup(group: number, signal: NodeJS.Signals): Error | undefined {
  try {
    process.kill(-group, signal)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH' ? undefined : (error as Error)
  }
}

/** Whether no process of a session runs any more. A zombie does not run: the parent that should reap it may be stopped. */
export function isGone(session: Session): boolean {
  const first = look(session.id)
  if (first === 'unknown') return false
  if (first && first.startedAt === session.startedAt && isAlive(first)) return false
  const found = members(session)
  // Twice: `scan` says what may hide from one list.
  if (found) return [found, members(session)].every((each) => each?.isComplete && each.processes.length === 0)
  try {
    process.kill(-session.id, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/**
 * Sessions of processes that have this in their environment, or as an argument, whoever started them and when. A child
 * has the arguments of its parent until it executes its own program.
 */
export function sessionsMarked(entry: string, argument: string): { sessions: Session[]; isComplete: boolean } {
  const has = (id: number, file: string, text: string) => {
    try {
      return readFileSync(`/proc/${id}/${file}`, 'utf8').split('\0').includes(text)
    } catch {
      // It has ended, or belongs to another user.
      return false
    }
  }
  const found = scan(({ id }) => has(id, 'environ', entry) || has(id, 'cmdline', argument))
  if (!found) return { sessions: [], isComplete: true }
  const ids = new Set(found.processes.map(({ session }) => session))
  return { sessions: [...ids].map((id) => sessionOf(id)), isComplete: found.isComplete }
}

/** The children of a process that run, each as the session that it leads or is about to. */
export function childrenOf(parent: number): Session[] {
  return (scan((each) => each.parent === parent)?.processes ?? []).map(({ id, startedAt }) => ({ id, startedAt }))
}

/** Undefined where the system does not list processes. */
function members(session: Session): Found | undefined {
  if (isGivenAway(session)) return { processes: [], isComplete: true }
  // The first process is about to lead its session if it does not yet.
  return scan((each) => each.session === session.id || (each.id === session.id && each.startedAt === session.startedAt))
}

/** A number is given to another process only after the whole session has ended. */
function isGivenAway({ id, startedAt }: Session): boolean {
  const first = look(id)
  return first !== undefined && first !== 'unknown' && startedAt !== undefined && first.startedAt !== startedAt
}

/**
 * Looks at all processes; undefined where the system does not list them. A list is old when it is read: a process that
 * was in it and is gone may have left a child that was not. So the list is taken again, until no process disappeared in
 * between.
 *
 * No living process hides from a list while it is being made, although that takes a while: the list goes up by id, and a
 * child has a higher id than its parent. The exception is when ids start again from the lowest just then: the child may
 * have an id that the list has passed, or that was looked at in an earlier round, and the parent ends before its turn. It
 * takes thousands of new processes until ids start again the next time, so they do not during the next list: a caller
 * that must be sure takes two.
 */
function scan(isSought: (process: Process) => boolean): Found | undefined {
  if (!canList) return undefined
  const seen = new Set<number>()
  const processes: Process[] = []
  let isKnown = true
  for (let round = 0; round < mostRounds; round++) {
    const ids = processIds()
    if (!ids) break
    let mayHaveForked = false
    for (const id of ids) {
      if (seen.has(id)) continue
      seen.add(id)
      const each = look(id)
      if (each === 'unknown') isKnown = false
      else if (!each) mayHaveForked = true
      else if (!isSought(each)) continue
      else if (isAlive(each)) processes.push(each)
      else mayHaveForked = true
    }
    if (!mayHaveForked) return { processes, isComplete: isKnown }
  }
  return { processes, isComplete: false }
}

/** The first thread of a process may end before the others. */
function isAlive({ id, state }: Process): boolean {
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

/** Undefined if they are no longer listed. A list without this process may leave out others too. */
function processIds(): number[] | undefined {
  try {
    const ids = readdirSync('/proc').map(Number).filter(Number.isInteger)
    return ids.includes(process.pid) ? ids : undefined
  } catch {
    return undefined
  }
}

function ownId(): string | undefined {
  try {
    return readlinkSync('/proc/self')
  } catch {
    return undefined
  }
}

/** Undefined if there is no such process; `unknown` after any other trouble, such as too many open files. */
function look(id: number): Process | 'unknown' | undefined {
  if (!canList) return undefined
  try {
    const text = readFileSync(`/proc/${id}/stat`, 'utf8')
    // The name, in parentheses, may hold anything.
    const [state = '', parent, group, session, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return {
      id,
      parent: Number(parent),
      group: Number(group),
      session: Number(session),
      startedAt: rest[15] ?? '',
      state,
    }
  } catch (error) {
    return isAbsence(error) ? undefined : 'unknown'
  }
}
