import { callWithin, type Bound } from '@tenure/internal/bound'
import { processName } from '@tenure/internal/process-name'
import { systemClock, type Clock } from '../common/clock.ts'
import type { PreferenceOptions } from '../engine/ask-preference.ts'
import { Elector } from '../engine/elector.ts'
import { TenureError } from '../common/errors.ts'
import type { LeaseRecord, LeaseStore } from '../engine/lease-store.ts'
import { checkFound } from '../engine/store-calls.ts'
import { timingsOf } from '../engine/timings.ts'
import type { JobObserver } from './events.ts'
import type { JobsOptions } from './options.ts'
import { JobReporter } from './reporter.ts'

/** The job runtime that all jobs of a process share: its store, its identity, its clock, and its active electors. */
export class JobRuntime {
  readonly clock: Clock
  readonly reporter: JobReporter
  readonly leaseDurationMs: number
  readonly retryIntervalMs: number
  readonly #store: LeaseStore
  readonly #make: (election: string, preference?: PreferenceOptions) => Elector
  readonly #preference: PreferenceOptions
  readonly #electors = new Set<Elector>()
  /** One controller for each read in flight. */
  readonly #reads = new Set<Bound>()
  #closed: Promise<void> | undefined

  constructor(options: Omit<JobsOptions, 'signal' | 'sharedLeader' | 'observer'>, observer: JobObserver | undefined) {
    const clock = options.clock ?? systemClock
    const identity = options.identity ?? processName(clock.randomId())
    const reporter = new JobReporter(identity, clock, observer, options.log)
    this.clock = clock
    this.reporter = reporter
    this.#store = options.store
    const { eligible, ineligibleForMs, priority, ...others } = options
    this.#preference = { eligible, ineligibleForMs, priority }
    this.#make = (election, preference = {}) =>
      new Elector({ ...others, ...preference, identity, clock, election, observer: reporter.ofElections })
    // Reject invalid elector options now, not when the first job is added.
    this.#make('jobs', this.#preference)
    const { leaseDurationMs, retryIntervalMs } = timingsOf(options)
    this.leaseDurationMs = leaseDurationMs
    this.retryIntervalMs = retryIntervalMs
  }

  /** Runs `use` with a new elector that ignores this process's preference. Closing the jobs stops that elector. */
  async withElector<T>(election: string, use: (elector: Elector) => Promise<T>): Promise<T> {
    return this.#use(() => this.#make(election), use)
  }

  /** Runs `use` with a new elector that leads only if this process should. Closing the jobs stops that elector. */
  async withPreferringElector<T>(election: string, use: (elector: Elector) => Promise<T>): Promise<T> {
    return this.#use(() => this.#make(election, this.#preference), use)
  }

  async #use<T>(make: () => Elector, use: (elector: Elector) => Promise<T>): Promise<T> {
    this.throwIfClosed()
    const elector = make()
    this.#electors.add(elector)
    try {
      return await use(elector)
    } finally {
      this.#electors.delete(elector)
    }
  }

  /** Reads the record of a job. Undefined if there is none. */
  async read(name: string, ended?: AbortSignal): Promise<LeaseRecord | undefined> {
    const timeoutMs = this.leaseDurationMs
    const deadline = { clock: this.clock, timeoutMs, late: () => late(name, timeoutMs) }
    return callWithin(ended, deadline, async (signal, bound) => {
      this.#reads.add(bound)
      try {
        return checkFound(await bound.race(this.#store.read(name, { signal, timeoutMs })))
      } finally {
        this.#reads.delete(bound)
      }
    })
  }

  throwIfClosed(): void {
    if (this.#closed) throw closed()
  }

  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = Promise.all([...this.#electors].map((elector) => elector.stop())).then(() => undefined)
      for (const read of this.#reads) read.end(closed())
    }
    return this.#closed
  }
}

function closed(): TenureError {
  return new TenureError('STOPPED', 'These jobs were closed. Create new ones with createJobs().')
}

function late(name: string, timeoutMs: number): TenureError {
  const text = `The store did not answer "read" for "${name}" within ${Math.ceil(timeoutMs)} ms.`
  return new TenureError('TIMEOUT', text, { retryable: true })
}
