import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { RunningService } from '../../src/index.ts'
import type { ServeOptions } from '../service-under-test.ts'

/** A service that can be killed, because it runs in a separate process. */
export interface ForkedService extends RunningService {
  kill(): Promise<void>
}

/** The options of {@link forkService}. They must be serializable. */
export interface ForkOptions extends ServeOptions {
  readonly store: string
  readonly advertise: string
  readonly advertiseCaFile?: string | undefined
}

/** Starts the built service. */
export async function forkService({ onLine, ...options }: ForkOptions, environment: NodeJS.ProcessEnv = {}) {
  const child = fork(join(import.meta.dirname, 'serve-options.mjs'), [JSON.stringify(options)], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { ...process.env, ...environment },
  })
  if (child.stderr) createInterface(child.stderr).on('line', (line) => onLine?.(line))
  const end = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  try {
    const { url = '', clusterId = '' } = await nextOf(child)
    const service: ForkedService = {
      url,
      clusterId,
      kill: end,
      async reload() {
        child.send('reload')
        await nextOf(child)
      },
      async close() {
        child.send('close')
        await nextOf(child)
        await end()
      },
    }
    return service
  } catch (error) {
    await end()
    throw error
  }
}

interface Told {
  readonly url?: string
  readonly clusterId?: string
  readonly failed?: string
}

async function nextOf(child: ChildProcess): Promise<Told> {
  const left = once(child, 'exit').then(([code]) => ({ failed: `the service ended with ${String(code)}` }))
  const told = once(child, 'message').then(([message]) => message as Told)
  const { failed, ...message } = await Promise.race<Told>([told, left])
  if (failed !== undefined) throw new Error(failed)
  return message
}
