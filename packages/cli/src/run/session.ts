import { readdirSync, readFileSync } from 'node:fs'
import { canSeeProcesses, isRunning, processEntry, type ProcessEntry } from '@tenure/internal/process-status'

/**
 * All processes of one command: the session that its first process leads. Child processes stay in the session, even
 * those in other process groups, such as the groups that `timeout` and shells with job control create. Only a process
 * that starts a new session leaves it.
 */
export interface CommandSession {
  /** The id of the first process, which is also the id of its process group. */
  readonly id: number
  /** When the first process started, in the kernel's units. Undefined if unknown. */
  readonly startedAt: string | undefined
}

interface FoundProcess {
  /** The processes that are running. */
  readonly processes: readonly ProcessEntry[]
  /** Whether the list is known to be complete. */
  readonly isComplete: boolean
}

/** All processes of the machine. */
interface ProcessList extends FoundProcess {
  /** The processes that had ended when the list was taken. */
  readonly ended: readonly ProcessEntry[]
}

/**
 * The lists of this turn of the event loop, shared by all sessions: a list for each of 100 commands would delay the
 * signals to the last of them by seconds. An older list is safe for both of its uses. A session that it shows as gone
 * stays gone, because only its own processes can add to it. A process that it misses gets the next, repeated signal. But
 * a list from before a session began would show it as gone, so `forgetLists` is called whenever a session becomes known.
 */
let lists: (ProcessList | undefined)[] = []

/** Whether processes can be listed. That requires Linux and a /proc of our own PID namespace. */
const canList = canSeeProcesses()

/** How many times a list is retaken before it is reported as incomplete. */
const maxScanRounds = 5

/** Returns the session of a process that was just started as its leader. */
export function sessionOf(id: number): CommandSession {
  forgetLists()
  const first = readProcess(id)
  return { id, startedAt: first === 'unknown' ? undefined : first?.startedAt }
}

/** Makes the next call about a session list the processes again. Call it when this process has learned of a session. */
export function forgetLists(): void {
  lists = []
}

/** Sends a signal to every process of a session. Returns the error if signaling one of them is not permitted. */
export function signalSession(session: CommandSession, signal: NodeJS.Signals): Error | undefined {
  if (isIdReused(session)) return undefined
  // Signal the main group first. The kernel also reaches processes there that fork faster than they can be listed.
  const refusal = signalGroup(session.id, signal)
  const others = (members(session)?.processes ?? []).filter(({ group }) => group !== session.id)
  return signalGroups(others, signal) ?? refusal
}

/**
 * Continues stopped processes, which could not act on any other signal. Where states are known, only stopped ones get
 * SIGCONT.
 */
export function continueStopped(session: CommandSession): void {
  const stopped = members(session)?.processes.filter(({ state }) => state === 'T')
  signalGroups(stopped ?? [{ group: session.id }], 'SIGCONT')
}

/** Signals whole groups: the kernel signals a group atomically, so no process in it can escape by forking. */
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

/**
 * Whether no process of a session is running. A zombie does not count as running, because the parent that should reap
 * it may be stopped.
 */
export function isGone(session: CommandSession): boolean {
  const first = readProcess(session.id)
  if (first === 'unknown') return false
  if (first && first.startedAt === session.startedAt && isRunning(first)) return false
  const found = members(session)
  // Take two lists: see `scan` for what one list can miss.
  if (found) return [found, members(session, 1)].every((each) => each?.isComplete && each.processes.length === 0)
  try {
    process.kill(-session.id, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/**
 * Finds the sessions of processes that have a marker in their environment or `argument` among their arguments, no matter
 * who started them. A child has the arguments of its parent until it executes its own program.
 */
export function findMarkedSessions(
  isMarker: (entry: string) => boolean,
  argument?: string,
): { sessions: CommandSession[]; isComplete: boolean } {
  const has = (id: number, file: string, isSought: (text: string) => boolean) => {
    try {
      return readFileSync(`/proc/${id}/${file}`, 'utf8').split('\0').some(isSought)
    } catch {
      // The process has ended, or belongs to another user.
      return false
    }
  }
  const isMarked = ({ id }: ProcessEntry) =>
    has(id, 'environ', isMarker) || (argument !== undefined && has(id, 'cmdline', (text) => text === argument))
  const found = scan(isMarked)
  if (!found) return { sessions: [], isComplete: true }
  const ids = new Set(found.processes.map(({ session }) => session))
  return { sessions: [...ids].map((id) => sessionOf(id)), isComplete: found.isComplete && found.ended.length === 0 }
}

/** Returns the running children of a process, each as the session that it leads or is about to lead. */
export function childrenOf(parent: number): CommandSession[] {
  forgetLists()
  return (scan((each) => each.parent === parent)?.processes ?? []).map(({ id, startedAt }) => ({ id, startedAt }))
}

/**
 * Returns the running processes of a session, or undefined if the system does not list processes. `which`: the list to
 * use, the first or the second.
 */
function members(session: CommandSession, which: 0 | 1 = 0): FoundProcess | undefined {
  if (isIdReused(session)) return { processes: [], isComplete: true }
  const list = listOf(which)
  if (!list) return undefined
  // Includes the first process even if it does not lead its session yet.
  const isMember = (each: ProcessEntry) =>
    each.session === session.id || (each.id === session.id && each.startedAt === session.startedAt)
  // A process that had ended may have forked just before.
  return { processes: list.processes.filter(isMember), isComplete: list.isComplete && !list.ended.some(isMember) }
}

/** Returns a list of this turn of the event loop. */
function listOf(which: 0 | 1): ProcessList | undefined {
  if (lists.length === 0) setImmediate(forgetLists)
  return (lists[which] ??= scan(() => true))
}

/** Whether the id now belongs to another process. The kernel reuses an id only after the whole session has ended. */
function isIdReused({ id, startedAt }: CommandSession): boolean {
  const first = readProcess(id)
  return first !== undefined && first !== 'unknown' && startedAt !== undefined && first.startedAt !== startedAt
}

/**
 * Scans all processes. Returns undefined if the system does not list them. A list is already stale when it is read: a
 * listed process that has since ended may have left a child that was not listed. So the list is retaken until no
 * process has disappeared in the meantime.
 *
 * No living process is missed while a list is being made, even though that takes time: the list is in ascending order
 * of ids, and a child has a higher id than its parent. The exception is a wrap-around of the ids at that moment. Then
 * the child may have an id that the list has already passed, or that an earlier round has seen, and the parent may end
 * before its turn. The next wrap-around is thousands of new processes away, so it cannot also affect the next list. A
 * caller that must be sure takes two lists.
 */
function scan(isSought: (process: ProcessEntry) => boolean): ProcessList | undefined {
  if (!canList) return undefined
  const seen = new Set<number>()
  const processes: ProcessEntry[] = []
  let isKnown = true
  let ended: ProcessEntry[] = []
  let mayHaveForked = true
  for (let round = 0; round < maxScanRounds && (mayHaveForked || ended.length > 0); round++) {
    const ids = processIds()
    if (!ids) return { processes, ended, isComplete: false }
    mayHaveForked = false
    ended = []
    for (const id of ids) {
      if (seen.has(id)) continue
      seen.add(id)
      const each = readProcess(id)
      if (each === 'unknown') isKnown = false
      else if (!each) mayHaveForked = true
      else if (!isSought(each)) continue
      else if (isRunning(each)) processes.push(each)
      else ended.push(each)
    }
  }
  return { processes, ended, isComplete: isKnown && !mayHaveForked }
}

/** Returns the process ids, or undefined if /proc cannot be read. A list without this process may also miss others. */
function processIds(): number[] | undefined {
  try {
    const ids = readdirSync('/proc').map(Number).filter(Number.isInteger)
    return ids.includes(process.pid) ? ids : undefined
  } catch {
    return undefined
  }
}

/** Returns the same as `processEntry`, or undefined where processes cannot be listed. */
function readProcess(id: number): ProcessEntry | 'unknown' | undefined {
  return canList ? processEntry(id) : undefined
}
