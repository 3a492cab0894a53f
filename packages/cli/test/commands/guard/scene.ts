import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, vi } from 'vitest'
import { Elector, type LeaseRecord } from 'tenure'
import { openStore } from 'tenure/stores'
import { temporaryFolder, tenure, type Spawned } from '../../tenure.ts'

/** A takeover that takes less than this cannot be due to an expiry. */
export const soonMs = 20_000
const leaseDurationMs = 60_000

const program = join(import.meta.dirname, '../../../../tenure/test/engine/guard/leader.mjs')

export interface RunningGuard extends Spawned {
  readonly path: string
}

/** Starts `tenure guard` and waits until it listens. */
export async function startGuard(store: string, args: readonly string[] = [], path = newPath()): Promise<RunningGuard> {
  const spawned = tenure(['guard', '--listen', `unix:${path}`, '--store', store, ...args])
  await said(spawned, 'listening on')
  return { ...spawned, path }
}

export const newPath = () => join(temporaryFolder(), 'guard.sock')

export async function said({ output }: Pick<Spawned, 'output'>, text: string): Promise<void> {
  await vi.waitFor(() => expect(output.error).toContain(text), { timeout: 20_000, interval: 20 })
}

let elections = 0

export interface Leader {
  readonly child: ChildProcess
  readonly election: string
  /** Sends a command to the program, and waits for its answer. */
  tell(action: string, answer?: string): Promise<Record<string, unknown>>
}

/** Starts a program that leads with `releaseOnCrash`, and uses the guard at `path`. */
export async function startLeader(url: string, path: string, within: readonly string[] = []): Promise<Leader> {
  const election = `guarded-${++elections}`
  const options = JSON.stringify({ url, elections: [election], leaseDurationMs })
  const [file = '', ...args] = [...within, process.execPath, program, options] as string[]
  const child = spawn(file, args, {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    env: { ...process.env, TENURE_GUARD: path },
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  await answered(child, 'leads')
  const tell: Leader['tell'] = (action, answer = 'done') => {
    const answering = answered(child, answer)
    child.send(action)
    return answering
  }
  return { child, election, tell }
}

async function answered(child: ChildProcess, type: string): Promise<Record<string, unknown>> {
  for (;;) {
    const [message] = (await once(child, 'message', { signal: AbortSignal.timeout(30_000) })) as [{ type: string }]
    if (message.type === type) return message
  }
}

/** Waits until the guard would notice a crash of the leader. */
export async function armed({ tell }: Leader): Promise<void> {
  await vi.waitFor(
    async () => {
      const { explanation } = await tell('explain', 'explained')
      expect(explanation).toMatchObject({ isLeader: true, releaseOnCrash: 'armed' })
    },
    { timeout: 20_000 },
  )
}

/** Returns how long a standby needs to lead after `crash`. */
export async function takeoverMs(url: string, election: string, crash: () => void): Promise<number> {
  const store = await openStore(url)
  const standby = new Elector({ store, election, leaseDurationMs, log: false })
  onTestFinished(async () => {
    await standby.stop()
    await store.close?.()
  })
  standby.start()
  await vi.waitFor(() => expect(standby.leader()?.released).toBe(false), { timeout: 10_000 })
  const atMs = performance.now()
  crash()
  await standby.waitForLeadership({ signal: AbortSignal.timeout(40_000) })
  return performance.now() - atMs
}

export async function recordOf(url: string, election: string): Promise<LeaseRecord | undefined> {
  const store = await openStore(url)
  try {
    return await store.read(election, { signal: AbortSignal.timeout(10_000), timeoutMs: 10_000 })
  } finally {
    await store.close?.()
  }
}

/** Connects to a guard directly. */
export async function connected(path: string): Promise<Socket> {
  const socket = connect(path)
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.resume()
  return socket
}
