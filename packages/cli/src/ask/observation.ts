import type { LeaseRecord, LeaseStore } from 'tenure'
import { within } from '../calls.ts'
import { now, setTimer } from '../clock.ts'

/** What became of an election. `state` is how it stood at first sight. */
export type ChangeType = 'state' | 'elected' | 'renewed' | 'released' | 'expired' | 'vanished'

export interface Change {
  readonly type: ChangeType
  readonly record: LeaseRecord | undefined
}

interface ObservationOptions {
  readonly store: LeaseStore
  readonly election: string
  readonly timeoutMs: number
  onChange(change: Change): void
  /** The store could not be asked; it is asked again. */
  onTrouble(error: unknown): void
}

const pollMs = 1_000
const longestPauseMs = 10_000

/**
 * Watches one election, or looks again and again where a store cannot be watched. A lease runs out here as it does for
 * a candidate: when one version of it was seen for its whole duration.
 */
export class Observation {
  readonly #options: ObservationOptions
  readonly #end = new AbortController()
  #record: LeaseRecord | undefined
  #hasSeen = false
  #isOver = false
  #seenAtMs = 0
  #cancel: () => void = () => {}

  constructor(options: ObservationOptions) {
    this.#options = options
  }

  get record(): LeaseRecord | undefined {
    return this.#record
  }

  /** How much is left of the lease at most, as seen from here. */
  remainingMs(): number {
    if (!this.#record || this.#record.released || this.#isOver) return 0
    return Math.max(0, this.#seenAtMs + this.#record.leaseDurationMs - now().machineMs)
  }

  /** Rejects if the first look fails; later ones are tried again. */
  async run(): Promise<void> {
    await this.#look()
    let failures = 0
    while (!this.#end.signal.aborted) {
      try {
        await this.#follow()
        await this.#look()
        failures = 0
      } catch (error) {
        if (this.#end.signal.aborted) return
        failures += 1
        this.#options.onTrouble(error)
      }
      await this.#pause(Math.min(longestPauseMs, pollMs * 2 ** Math.max(0, failures - 1)))
    }
  }

  end(): void {
    this.#cancel()
    this.#end.abort()
  }

  /** Whoever ends it waits for no answer. */
  async #look(): Promise<void> {
    const { store, election, timeoutMs } = this.#options
    const { signal } = this.#end
    if (signal.aborted) return
    try {
      this.#see(await within(timeoutMs, (call) => store.read(election, call), signal))
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  async #follow(): Promise<void> {
    const { store, election } = this.#options
    if (!store.watch) return
    for await (const record of store.watch(election, { signal: this.#end.signal })) this.#see(record)
  }

  #see(record: LeaseRecord | undefined): void {
    const before = this.#record
    const first = !this.#hasSeen
    if (!first && before?.version === record?.version && before?.released === record?.released) return
    const type = first ? 'state' : typeOf(before, record)
    this.#hasSeen = true
    this.#record = record
    this.#isOver = false
    this.#seenAtMs = now().machineMs
    this.#cancel()
    if (record && !record.released) this.#cancel = setTimer(record.leaseDurationMs, () => this.#runOut(record))
    this.#options.onChange({ type, record })
  }

  #runOut(record: LeaseRecord): void {
    this.#isOver = true
    this.#options.onChange({ type: 'expired', record })
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = setTimer(ms, () => {
        this.#end.signal.removeEventListener('abort', stop)
        resolve()
      })
      const stop = () => {
        cancel()
        resolve()
      }
      if (this.#end.signal.aborted) stop()
      else this.#end.signal.addEventListener('abort', stop, { once: true })
    })
  }
}

function typeOf(before: LeaseRecord | undefined, record: LeaseRecord | undefined): ChangeType {
  if (!record) return 'vanished'
  if (record.released) return 'released'
  return record.term === before?.term ? 'renewed' : 'elected'
}
