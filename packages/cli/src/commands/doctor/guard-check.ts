import { once } from 'node:events'
import { connect } from 'node:net'
import { processNamespace } from '@tenure/internal/process-status'
import { Elector, isTenureError, type LeaseStore } from 'tenure'
import { endsWithContainer, introduction } from 'tenure/internal'
import { setTimer } from '../../shared/clock.ts'

/** A guard refuses a process immediately, by closing the connection. */
const refusalWithinMs = 500
const connectWithinMs = 2_000

/** Whether the lease would be released if a process crashed here. */
export interface CrashFinding {
  readonly isNoticed: boolean
  readonly text: string
  /** Whether a setting is wrong. */
  readonly isMistake: boolean
}

/** Checks whether `releaseOnCrash` works for a program that runs in the same place as the doctor. */
export async function checkGuard(store: LeaseStore, storeUrl: string): Promise<CrashFinding> {
  const finding = (isNoticed: boolean, text: string, isMistake = false) => ({ isNoticed, text, isMistake })
  const refusal = refusalOf(store, storeUrl)
  if (refusal === 'not needed') return finding(true, 'noticed by the store: standbys take over when the process dies')
  if (refusal !== undefined)
    return finding(false, `costs one lease: releaseOnCrash is refused here, because ${refusal}`)
  const socket = process.env['TENURE_GUARD']
  if (socket) {
    const problem = await problemWith(socket.replace(/^unix:/, ''))
    if (problem === undefined) return finding(true, `releaseOnCrash works, with the guard at ${socket}`)
    return finding(false, `costs one lease: the guard at ${socket} ${problem}`, true)
  }
  if (endsWithContainer(process, processNamespace())) {
    const advice = 'Run "tenure guard" in another container and set TENURE_GUARD, or use "tenure run"'
    return finding(false, `costs one lease: a guard would end with the first process of this container. ${advice}`)
  }
  return finding(true, 'releaseOnCrash works: a guard process releases the lease of a process that died')
}

/** Returns why the library refuses `releaseOnCrash`. The constructor checks its options and does nothing else. */
function refusalOf(store: LeaseStore, storeUrl: string): string | undefined {
  try {
    const elector = new Elector({ store, election: 'tenure-doctor', releaseOnCrash: { storeUrl }, log: false })
    return elector.explain().releaseOnCrash === 'off' ? 'not needed' : undefined
  } catch (error) {
    if (!isTenureError(error) || error.rule === undefined) throw error
    return error.rule
  }
}

/** Returns why the guard at this path cannot be used, or undefined if it accepts this process. */
async function problemWith(path: string): Promise<string | undefined> {
  const socket = connect(path)
  socket.on('error', () => {})
  const late = new AbortController()
  let cancel = setTimer(connectWithinMs, () => late.abort())
  try {
    await once(socket, 'connect', { signal: late.signal })
    cancel()
    socket.resume().write(introduction() ?? '')
    const isClosed = await new Promise<boolean>((resolve) => {
      socket.once('close', () => resolve(true))
      cancel = setTimer(refusalWithinMs, () => resolve(false))
    })
    return isClosed ? 'refuses this process: see its log' : undefined
  } catch (error) {
    return `cannot be reached (${late.signal.aborted ? 'no answer' : (error as NodeJS.ErrnoException).code})`
  } finally {
    cancel()
    socket.destroy()
  }
}
