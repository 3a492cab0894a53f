import { createServer, type Socket } from 'node:net'
import { canSeeProcesses } from '@tenure/internal/process-status'
import type { LeaseStore } from 'tenure'
import { GuardServer, type GuardedStore } from 'tenure/internal/guard-server'
import { usageError } from '../../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { setTimer } from '../../shared/clock.ts'
import { ErrorLog } from '../../shared/error-log.ts'
import { commandErrorOf } from '../../shared/failures.ts'
import { makeLog, type CommandLog } from '../../shared/log.ts'
import { pluralize } from '../../shared/output.ts'
import { stopOnSignals } from '../../shared/shutdown.ts'
import { admitGroup, groupIdOf, listenOnPath } from '../../shared/socket-path.ts'
import { openChosenStore } from '../../shared/store.ts'
import { guardSettings } from './command.ts'

/** The maximum number of processes that are guarded at a time. */
const mostProcesses = 256
/** The maximum number of attempts that a process may register. Each has at most 29,000 characters. */
const mostAttempts = 1_000
/** How long a connection may be open before its process introduces itself. The library does so immediately. */
const longestSilenceMs = 5_000

/** Guards every process that connects, until this command is signaled. */
export async function guard(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(guardSettings, flags)
  const groupId = settings.group === undefined ? undefined : groupIdOf(settings.group)
  checkPlatform()
  const log = makeLog(settings.json)
  const store = await openChosenStore(settings)
  checkStore(settings.store ?? '', store)
  const processes = new GuardedProcesses(guardedStore(store, log), log)
  const server = createServer((socket) => processes.accept(socket))
  await listenOnPath(server, settings.listen)
  const { path } = settings.listen
  try {
    if (groupId !== undefined) admitGroup(path, groupId)
  } catch (error) {
    server.close()
    throw error
  }
  log.info({ path }, `listening on unix:${path}`)
  stopOnSignals(log, async () => {
    // Also removes the socket, so that the next guard can listen there.
    server.close()
    await processes.stop()
    await store.close?.()
  })
}

function checkPlatform(): void {
  if (process.platform !== 'linux')
    throw usageError(['tenure guard works on Linux only: it reads from /proc whether a process has ended.'])
  if (!canSeeProcesses())
    throw usageError([
      '/proc does not show the processes of this PID namespace, so tenure guard cannot see any process.',
    ])
}

function checkStore(url: string, { terms }: LeaseStore): void {
  if (/^(?:memory|file):/i.test(url))
    throw usageError([
      `--store must be a server. A ${url.slice(0, url.indexOf(':'))} store needs no guard: see the documentation for releaseOnCrash.`,
    ])
  if (!terms) throw usageError(['This store keeps no terms, so a guard could not identify what it releases.'])
}

/** The processes that are connected, and those that died and whose leases are being released. */
class GuardedProcesses {
  readonly #store: GuardedStore
  readonly #log: CommandLog
  readonly #refusals = new ErrorLog()
  readonly #guards = new Set<GuardServer>()

  constructor(store: GuardedStore, log: CommandLog) {
    this.#store = store
    this.#log = log
  }

  accept(socket: Socket): void {
    // Without a listener, a process that dies with a reset connection would end this process.
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // An error with a code is from the system, and means that the process has ended.
      if (error.code === undefined) this.#refuse(error.message)
    })
    if (this.#guards.size >= mostProcesses) {
      this.#refuse(`It already guards ${mostProcesses} processes.`)
      return void socket.destroy()
    }
    const cancel = setTimer(longestSilenceMs, () => socket.destroy())
    socket.once('data', cancel).once('close', cancel)
    const server = new GuardServer(socket, { open: async () => this.#store, mustSeeProcess: true, mostAttempts })
    this.#guards.add(server)
    void server.done.then(() => this.#guards.delete(server))
  }

  /** Resolves when no process is guarded anymore. */
  async stop(): Promise<void> {
    const count = this.#guards.size
    if (count > 0) this.#log.info({ count }, `waiting for the end of ${pluralize(count, 'connection')}`)
    for (const each of this.#guards) each.terminate()
    await Promise.all([...this.#guards].map(({ done }) => done))
  }

  #refuse(text: string): void {
    if (this.#refusals.shouldReport(text, { ofRenewal: false })) this.#log.warn({}, `refused a process: ${text}`)
  }
}

/** Logs releases, and each error once a minute. All processes share the store, so no guard closes it. */
function guardedStore(store: LeaseStore, log: CommandLog): GuardedStore {
  const troubles = new ErrorLog()
  const reported = async <T>(call: () => Promise<T>): Promise<T> => {
    try {
      const answer = await call()
      troubles.end({ ofRenewal: false })
      return answer
    } catch (error) {
      const { message } = commandErrorOf(error)
      if (troubles.shouldReport(message, { ofRenewal: false })) log.error({}, message)
      throw error
    }
  }
  return {
    read: (election, call) => reported(() => store.read(election, call)),
    release: (claim, call) =>
      reported(async () => {
        const outcome = await store.release(claim, call)
        const { election, holder, term } = claim
        const text = `released ${election} in term ${term}: the process of ${holder} has ended`
        if (outcome.ok) log.info({ type: 'released', election, holder, term }, text)
        return outcome
      }),
  }
}
