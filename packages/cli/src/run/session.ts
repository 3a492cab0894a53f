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

/** Whether processes can be listed. That requires Linux and a /proc of our own PID namespace. */
const canList = canSeeProcesses()

/** How many times a list is retaken before it is reported as incomplete. */
const maxScanRounds = 5

/** Returns the session of a process that was just started as its leader. */
export function sessionOf(id: number): CommandSession {
  const first = readProcess(id)
  return { id, startedAt: first === 'unknown' ? undefined : first?.startedAt }
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
  if (found) return [found, members(session)].every((each) => each?.isComplete && each.processes.length === 0)
  try {
    process.kill(-session.id, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/**
 * Finds the sessions of processes that have `entry` in their environment or `argument` among their arguments, no matter
 * who started them. A child has the arguments of its parent until it executes its own program.
 */
export function findMarkedSessions(
  entry: string,
  argument?: string,
): { sessions: CommandSession[]; isComplete: boolean } {
  const has = (id: number, file: string, text: string) => {
    try {
      return readFileSync(`/proc/${id}/${file}`, 'utf8').split('\0').includes(text)
    } catch {
      // The process has ended, or belongs to another user.
      return false
    }
  }
  const found = scan(({ id }) => has(id, 'environ', entry) || (argument !== undefined && has(id, 'cmdline', argument)))
  if (!found) return { sessions: [], isComplete: true }
  const ids = new Set(found.processes.map(({ session }) => session))
  return { sessions: [...ids].map((id) => sessionOf(id)), isComplete: found.isComplete }
}

/** Returns the running children of a process, each as the session that it leads or is about to lead. */
export function childrenOf(parent: number): CommandSession[] {
  return (scan((each) => each.parent === parent)?.processes ?? []).map(({ id, startedAt }) => ({ id, startedAt }))
}

/** Returns the running processes of a session, or undefined if the system does not list processes. */
function members(session: CommandSession): FoundProcess | undefined {
  if (isIdReused(session)) return { processes: [], isComplete: true }
  // Includes the first process even if it does not lead its session yet.
  return scan((each) => each.session === session.id || (each.id === session.id && each.startedAt === session.startedAt))
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
function scan(isSought: (process: ProcessEntry) => boolean): FoundProcess | undefined {
  if (!canList) return undefined
  const seen = new Set<number>()
  const processes: ProcessEntry[] = []
  let isKnown = true
  for (let round = 0; round < maxScanRounds; round++) {
    const ids = processIds()
    if (!ids) break
    let mayHaveForked = false
    for (const id of ids) {
      if (seen.has(id)) continue
      seen.add(id)
      const each = readProcess(id)
      if (each === 'unknown') isKnown = false
      else if (!each) mayHaveForked = true
      else if (!isSought(each)) continue
      else if (isRunning(each)) processes.push(each)
      else mayHaveForked = true
    }
    if (!mayHaveForked) return { processes, isComplete: isKnown }
  }
  return { processes, isComplete: false }
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
