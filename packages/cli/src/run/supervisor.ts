/**
 * The supervisor of `tenure run`: a separate process that ends the command in time, no matter what happens to the
 * wrapper.
 *
 * Why the commands of two machines never run at the same time, even though any one process may be killed or stopped at
 * any moment:
 *
 * Three processes take part. The wrapper W runs the elector. This supervisor S, W's child in its own session, is the
 * parent of the command C, which leads another session. With `--shards`, there is one C for each shard that W owns, each
 * in its own session, and the lease is that of W's seat: every shard of W depends on it. A lease of duration L that was
 * requested at `sentAt` belongs to nobody else before `sentAt + L` on the store's clock. If clock rates differ by at most
 * d, W may rely on it until B = sentAt + L(1-d)/(1+d) on its own clock.
 *
 *  1. W gives S absolute deadlines, and moves them with each renewal. `termAt` is when leadership ends unless renewed.
 *     `killAt` is the grace period after that, and in any case a margin before B. Both are moments on two clocks that
 *     both processes read: CLOCK_MONOTONIC, and time since boot, which includes sleep. The clock on which a deadline
 *     passes first counts.
 *  2. S starts nothing past `termAt`. At `termAt` it sends SIGTERM to C's session, and at `killAt` SIGKILL, repeated
 *     until no process is left. It needs neither W nor the store for that. While S starts C, possibly blocked on a
 *     disk, it can do nothing: if no start was reported by `killAt`, W kills S and its child. W orders one start at a
 *     time, so S never has a queue of starts before its deadlines. All commands of W share their deadlines. In each turn
 *     S signals the process group of each C, and it lists the processes of the machine only once for all of them, so that
 *     the last of many commands is killed within the margin too.
 *  3. When W dies, the kernel closes the pipe, and S kills every C at once.
 *  4. W has the same deadlines and knows the sessions. It also kills at `killAt`, and at once when S dies. So for a C to
 *     outlive B, both W and S must be kept from running.
 *  5. The file store lets others take over as soon as the holder's socket refuses connections, before L has passed.
 *     Both W and S hold that socket, so it refuses only when both are gone. S does not exit before the session of every
 *     C has ended.
 *  6. W releases the lease only after S has reported that C's session is gone, or S is dead, and W has checked itself.
 *     If an order to start was not answered, W waits for S's death before it does anything else. With `--shards`, the
 *     same holds for one shard: its work, in the words of `shard-member.ts`, settles only when its C's session is gone. By
 *     rules 4 and 5 there, W hands a shard over only after its work has settled, and releases its seat only after all
 *     work has. A seat that W has lost is not released: its lease expires, and 1 to 4 end every C before.
 *  7. When W has died, S releases the lease, so that others need not wait until it expires. S does so only if all of the
 *     following hold. Each of them, once true, stays true, so the order in which S finds out does not matter:
 *     a. The channel to W is closed. From then on S starts nothing, and W cannot order anything.
 *     b. No process of any C's session is left (2, 3). Nor is one of an earlier C: S keeps every C until its session has
 *        ended, and W starts another supervisor only after the sessions of all commands of the previous one have ended
 *        (6).
 *     c. No process anywhere has the marker of W's commands in its environment. So a process that left C's session by
 *        starting its own is noticed, unless it has cleared its environment or changed its user.
 *     d. The kernel says that W is gone. A closed channel alone does not prove that W no longer believes that it leads.
 *     By a to c nothing that W started runs, and by d W neither believes nor sends anything. S then releases exactly what
 *     W registered (with `--shards`, its seat, and the lease of the coordinator if W was that), at exactly the version
 *     that S has read: see `guard.ts` of the library, G2. If one of a to d does not hold in time, or S is stopped, dead
 *     or cut off from the store, S releases nothing, and the lease expires. S ignores signals to end even now: a service
 *     manager sends them as soon as W is dead. It stops trying after a third of the lease, and in any case after 10 s.
 *
 * Not covered:
 *
 * - W and S both stopped or dead, where a start that hangs counts as a stop of S: with `--shards`, for all commands of W.
 *   C is killed as soon as S continues.
 * - Processes that left C's session by starting their own, or that changed to a user whom W may not signal. A cgroup
 *   contains those. They are not killed. The release after W's death (7) does not wait for those that also cleared their
 *   environment or changed their user.
 * - A machine whose clocks were all paused.
 * - A pause of the machine between C's last check of its lease and its write.
 *
 * For these, the resource that C writes to must check the term (TENURE_TERM, or TENURE_TOKEN of a shard). Where the
 * system does not list its processes, those in other process groups are not covered either, nor is S's child if S was
 * killed while it hung in a start.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Server } from 'node:net'
import { untilMs } from '../shared/clock.ts'
import { Enforcer } from './enforcer.ts'
import { serve } from '@tenure/internal/liveness-socket'
import { CrashRelease } from './crash-release.ts'
import { isFenceMarker, removeFences } from './fence-file.ts'
import type { SupervisorAnswer, Order } from './protocol.ts'
import { findMarkedSessions, sessionOf, signalSession } from './session.ts'

type Start = Extract<Order, { type: 'start' }>

/** A running command. */
interface RunningCommand {
  readonly enforcer: Enforcer
  signal(signal: NodeJS.Signals): void
}

const signs = new Map<string, () => void>()
/** The running commands by the numbers of their runs. */
const runs = new Map<number, RunningCommand>()
/**
 * The folders of the fence files. Every process of a command names a file there in its environment, unless the process
 * has cleared its environment. The newest one is the last.
 */
const folders = new Set<string>()
let crashRelease: CrashRelease | undefined
let isOrphan = false

// A service manager that stops a unit signals all of its processes at once. W decides what to do, and if W is gone, S
// notices by the closed pipe. SIGUSR1 and SIGUSR2 are meant for the command only, but may be sent to all processes in
// the same way.
const ignored = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const
for (const signal of ignored) process.on(signal, () => {})

process.on('message', (order: Order, handle: unknown) => {
  if (order.type === 'start') return start(order)
  if (order.type === 'keep') return keep(order.folder)
  if (order.type === 'guard') return void (crashRelease = new CrashRelease(order.environment))
  if (order.type === 'hold') return hold(order.socketId, handle as Server)
  if (order.type === 'drop') return drop(order.socketId)
  const run = runs.get(order.run)
  if (!run) return
  if (order.type === 'extend') run.enforcer.extend(order.deadlines)
  else if (order.type === 'end') run.enforcer.end(order.signal, order.killAt)
  else run.signal(order.signal)
})

process.on('disconnect', () => {
  isOrphan = true
  if (runs.size === 0) void exitSupervisor()
  for (const { enforcer } of runs.values()) enforcer.kill()
})

answer({ type: 'ready' })

function answer(message: SupervisorAnswer): void {
  // If the wrapper no longer listens, the closed pipe reports that.
  if (process.connected) process.send?.(message, undefined, undefined, () => {})
}

function start({ run: id, command, args, environment, stdin, deadlines, graceMs }: Start): void {
  const refuse = (error: string, code?: string) => answer({ type: 'not-started', run: id, error, code })
  // An orphaned supervisor is about to release the lease.
  if (isOrphan) return refuse('tenure is gone')
  if (untilMs(deadlines.termAt) <= 0) return refuse('its deadline had already passed')
  const child = spawnChild(command, args, environment, stdin)
  const refuseFor = (error: NodeJS.ErrnoException) => refuse(startFailure(command, error), error.code)
  if (child instanceof Error) return refuseFor(child)
  const { pid } = child
  if (pid === undefined) {
    child.once('error', refuseFor)
    return
  }
  let exit: { code: number | null; signal: NodeJS.Signals | null } | undefined
  let isGone = false
  const session = sessionOf(pid)
  // A process may look dead before its parent learns its exit code.
  const finish = () => {
    if (!exit || !isGone) return
    runs.delete(id)
    answer({ type: 'gone', run: id, ...exit })
    if (isOrphan && runs.size === 0) void exitSupervisor()
  }
  const enforcer = new Enforcer({
    session,
    deadlines,
    graceMs,
    signalDelayMs: 0,
    // After the command has exited, only the processes that it left behind are signaled. That must not count as a
    // request to the command to end.
    onSignaled: () => exit ?? answer({ type: 'told', run: id }),
    // W gets the same error and reports it.
    onRefused: () => {},
    onGone: () => {
      isGone = true
      finish()
    },
  })
  // SIGUSR1 and SIGUSR2 are meant for the command only. Terminal signals are meant for the whole session.
  const isPrivate = (signal: NodeJS.Signals) => signal === 'SIGUSR1' || signal === 'SIGUSR2'
  runs.set(id, {
    enforcer,
    signal: (signal) => void (isPrivate(signal) ? child.kill(signal) : signalSession(session, signal)),
  })
  child.on('error', () => {})
  child.once('exit', (code, signal) => {
    exit = { code, signal }
    enforcer.noteExit()
    finish()
  })
  answer({ type: 'started', run: id, session })
}

function spawnChild(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  stdin: 'inherit' | 'ignore',
): ChildProcess | Error {
  try {
    return spawn(command, args, { env, stdio: [stdin, 'inherit', 'inherit'], detached: true })
  } catch (error) {
    return error as Error
  }
}

/** Explains why a command did not start. ENOENT for an existing file means that its interpreter was not found. */
function startFailure(command: string, { code, message }: NodeJS.ErrnoException): string {
  if (code === 'EACCES') return `permission denied: ${command}`
  if (code !== 'ENOENT') return message
  const isThere = command.includes('/') && existsSync(command)
  return isThere ? `${command} names an interpreter that was not found` : `command not found: ${command}`
}

function hold(sign: string, server: Server): void {
  signs.set(sign, serve(server))
  answer({ type: 'held', socketId: sign })
}

function drop(sign: string): void {
  signs.get(sign)?.()
  signs.delete(sign)
}

function keep(path: string): void {
  folders.delete(path)
  folders.add(path)
}

/** Called when W is gone and no process of any C's session is left. */
async function exitSupervisor(): Promise<void> {
  const newest = [...folders].at(-1)
  if (newest !== undefined) removeFences(newest)
  if (crashRelease && !hasSurvivor()) await crashRelease.release()
  process.exit(0)
}

/**
 * Whether a process of a command may have left its session and still be running. It would overlap with the next
 * leader's command.
 */
function hasSurvivor(): boolean {
  // Take two lists: see `scan` in session.ts for what one list can miss.
  const isMarker = (entry: string) => [...folders].some((folder) => isFenceMarker(folder, entry))
  const lists = [findMarkedSessions(isMarker), findMarkedSessions(isMarker)]
  return lists.some(({ sessions, isComplete }) => sessions.length > 0 || !isComplete)
}
