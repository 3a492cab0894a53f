import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { pathOf } from './find-program.ts'
import { end } from './process.ts'
import { programs } from './programs.ts'
import { startWatchdog } from './watchdog.ts'

/** An event that client-go reported to its candidate. */
export interface ClientGoEvent {
  readonly event: 'started' | 'stopped' | 'new-leader'
  readonly identity: string
  /** The `leaseTransitions` that it wrote when it started to lead. */
  readonly transitions?: number
  /** When it was reported, in milliseconds of the clock that `process.hrtime()` reads. */
  readonly monotonicMs: number
}

/** A candidate that uses client-go. Iterating over it yields all its events until the process has ended. */
export interface ClientGo extends AsyncIterable<ClientGoEvent> {
  readonly pid: number
  readonly identity: string
  /** The events so far. */
  readonly events: readonly ClientGoEvent[]
  /** Resolves with the first such event after this time. Rejects when the process ends without one. */
  first(event: ClientGoEvent['event'], options?: { readonly laterThanMs?: number }): Promise<ClientGoEvent>
  /** Ends the process. After SIGTERM it releases the lease by default. */
  kill(signal: NodeJS.Signals): Promise<void>
  pause(): void
  resume(): void
  /** Kills the process while it holds its lease. */
  stop(): Promise<void>
}

/** Options of a client-go candidate. Durations default to those of client-go. */
export interface ClientGoOptions {
  readonly server: string
  readonly caFile: string
  readonly token: string
  readonly namespace?: string
  readonly lease: string
  readonly identity: string
  readonly leaseDurationMs?: number
  readonly renewDeadlineMs?: number
  readonly retryPeriodMs?: number
  readonly releaseOnCancel?: boolean
  /** Whether `lease` is a MultiClusterLease and the candidate is spec-only. */
  readonly multicluster?: boolean
}

/** Starts a candidate that campaigns with client-go, and campaigns again after each loss. */
export function startClientGo(options: ClientGoOptions): ClientGo {
  const { server, namespace = 'default', lease, identity } = options
  const { leaseDurationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2_000, releaseOnCancel = true } = options
  const args = Object.entries({
    server,
    'ca-file': options.caFile,
    token: options.token,
    namespace,
    lease,
    identity,
    'lease-duration': `${leaseDurationMs}ms`,
    'renew-deadline': `${renewDeadlineMs}ms`,
    'retry-period': `${retryPeriodMs}ms`,
    'release-on-cancel': releaseOnCancel,
    multicluster: options.multicluster ?? false,
  }).map(([name, value]) => `--${name}=${value}`)
  const child = spawn(pathOf(programs.clientGo), args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const watchdog = startWatchdog('SIGKILL')
  watchdog.guard(child)
  child.once('exit', () => watchdog.dismiss())

  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-4_000)
  })
  const events: ClientGoEvent[] = []
  const output = { ended: false }
  const wake: (() => void)[] = []
  const wakeReaders = () => {
    for (const reader of wake.splice(0)) reader()
  }
  const lines = createInterface(child.stdout)
  lines.on('line', (line) => {
    const { monotonic_ms: monotonicMs, ...event } = JSON.parse(line)
    events.push({ ...event, monotonicMs })
    wakeReaders()
  })
  lines.once('close', () => {
    output.ended = true
    wakeReaders()
  })

  async function* read(): AsyncGenerator<ClientGoEvent, void, undefined> {
    for (let next = 0; ; next++) {
      while (next >= events.length && !output.ended) await new Promise<void>((resolve) => wake.push(resolve))
      const event = events[next]
      if (!event) return
      yield event
    }
  }

  return {
    pid: child.pid ?? 0,
    identity,
    events,
    [Symbol.asyncIterator]: read,
    async first(wanted, { laterThanMs = -Infinity } = {}) {
      for await (const event of read()) {
        if (event.event === wanted && event.monotonicMs > laterThanMs) return event
      }
      throw new Error(`${identity} ended without another '${wanted}':\n${errors}`)
    },
    kill: (signal) => end(child, signal),
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    stop: () => end(child, 'SIGKILL'),
  }
}
