import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { pathOf } from './find.ts'
import { end } from './process.ts'
import { programs } from './programs.ts'
import { startWatchdog } from './watchdog.ts'

/** What client-go told its candidate. */
export interface ClientGoEvent {
  readonly event: 'started' | 'stopped' | 'new-leader'
  readonly identity: string
  /** The `leaseTransitions` that it wrote, where it starts. */
  readonly transitions?: number
  /** When it was told: milliseconds of the clock that `process.hrtime()` reads. */
  readonly monotonicMs: number
}

/** A candidate of client-go. Iterating over it gives all its events from its start on, until the process has ended. */
export interface ClientGo extends AsyncIterable<ClientGoEvent> {
  readonly pid: number
  readonly identity: string
  /** The events so far. */
  readonly events: readonly ClientGoEvent[]
  /** The first such event later than that. Rejects when the process ends without it. */
  first(event: ClientGoEvent['event'], options?: { readonly laterThanMs?: number }): Promise<ClientGoEvent>
  /** Ends the process. After SIGTERM it releases the lease, unless told not to. */
  kill(signal: NodeJS.Signals): Promise<void>
  pause(): void
  resume(): void
  /** Ends the process at once, with its lease held. */
  stop(): Promise<void>
}

/** Options of a candidate of client-go; durations have client-go's own defaults. */
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
  /** `lease` is a MultiClusterLease, of which the candidate knows only what the document says. */
  readonly multicluster?: boolean
}

/** Starts a candidate that campaigns with client-go, again after each loss. */
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
      throw new Error(`${identity} has ended without another '${wanted}':\n${errors}`)
    },
    kill: (signal) => end(child, signal),
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    stop: () => end(child, 'SIGKILL'),
  }
}
