import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { end } from '../servers/process.ts'
import { startWatchdog } from '../servers/watchdog.ts'
import { kubeConfigOf } from './kube-config.ts'
import { timings, type Scene, type Via } from './lease-fixture.ts'

/** The options of a process. */
export interface ChildOptions {
  readonly style: 'Elector' | 'LeaderElector'
  readonly kubeConfig: string
  readonly leaseName: string
  readonly namespace: string
  readonly identity: string
  readonly timings: typeof timings
  readonly recordEvents: boolean
  /** Whether a callback of the LeaderElector throws. */
  readonly brokenCallback: boolean
}

interface Message {
  readonly event: 'ready' | 'elected' | 'aborted' | 'lost' | 'started' | 'asking' | 'resumed'
  readonly atMs: number
  readonly term?: number
  /** For `resumed`: the last answer of `isLeader()` before the pause, and the first one after it. */
  readonly ledBefore?: boolean
  readonly leads?: boolean
}

/** A separate process with the built package that campaigns for the Lease of a test. */
export interface Child {
  readonly identity: string
  readonly messages: readonly Message[]
  readonly errors: () => string
  send(command: 'campaign' | 'stepDown' | 'askThroughPause' | 'stop'): void
  kill(signal: NodeJS.Signals): void
  /** Resolves with its exit code when it has exited. */
  readonly ended: Promise<number | null>
}

type Some = Partial<Pick<ChildOptions, 'style' | 'recordEvents' | 'brokenCallback'>> & { readonly via?: Via }

/** Starts a process, which ends with the test. */
export function startChild(scene: Scene, identity: string, some: Some = {}): Child {
  const { style = 'Elector', recordEvents = false, brokenCallback = false, via = {} } = some
  const folder = mkdtempSync(join(tmpdir(), 'tenure-child-'))
  const kubeConfig = join(folder, 'kubeconfig')
  writeFileSync(kubeConfig, kubeConfigOf(scene.cluster, { port: via.port, token: via.token?.() }))
  const options: ChildOptions = {
    style,
    kubeConfig,
    leaseName: scene.leaseName,
    namespace: scene.cluster.namespace,
    identity,
    timings,
    recordEvents,
    brokenCallback,
  }
  const process = fork(fileURLToPath(new URL('elector-process.mjs', import.meta.url)), [JSON.stringify(options)], {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    execArgv: [],
  })
  const watchdog = startWatchdog('SIGKILL', folder)
  watchdog.guard(process)
  scene.onEnd(async () => {
    await end(process, 'SIGKILL')
    watchdog.dismiss()
    rmSync(folder, { recursive: true, force: true })
  })
  return follow(process, identity)
}

function follow(process: ChildProcess, identity: string): Child {
  const messages: Message[] = []
  let errors = ''
  process.on('message', (message: Message) => messages.push(message))
  process.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  return {
    identity,
    messages,
    errors: () => errors,
    send: (command) => void process.send(command),
    kill: (signal) => void process.kill(signal),
    ended: once(process, 'exit').then(([code]: (number | null)[]) => code ?? null),
  }
}
