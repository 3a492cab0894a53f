import type { CallOptions, LeaseRecord, LeaseStore } from 'tenure'
import { within } from '../calls.ts'
import { now, setTimer } from '../clock.ts'
import { isService } from '../store.ts'

/** What became of an election. `state` is how it stood at first sight. */
export type ChangeType = 'state' | 'elected' | 'renewed' | 'released' | 'expired' | 'vanished'

export interface Change {
  readonly type: ChangeType
  /** A renewal of what seemed to have run out: the way from there was cut for a while. */
  readonly revives?: boolean
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
 * A service shows a lease that ran out as it shows one that was given back. Whoever gives one back has renewed it not
 * long ago: with less than this share left it ran out, and the rest is the way from there to here.
 */
const shareLeftAtExpiry = 0.2

/**
 * Watches one election, or looks again and again where a store cannot be watched. A lease runs out here as it does for
 * a candidate: when one version of it was seen for its whole duration; or when a service says so, if that is earlier.
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
      const { record, remainingMs } = await within(timeoutMs, (call) => lookInto(store, election, call), signal)
      this.#see(record, remainingMs)
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  async #follow(): Promise<void> {
    const { store, election } = this.#options
    if (!store.watch) return
    for await (const record of store.watch(election, { signal: this.#end.signal })) this.#see(record)
  }

  #see(record: LeaseRecord | undefined, remainingMs = record?.leaseDurationMs ?? 0): void {
    const before = this.#record
    const first = !this.#hasSeen
    if (!first && before?.version === record?.version && before?.released === record?.released) return
    const isSameTerm = before !== undefined && before.term === record?.term
    const wasOver = isSameTerm && (this.#isOver || before.released)
    const ranOut =
      isService(this.#options.store) && this.remainingMs() < (before?.leaseDurationMs ?? 0) * shareLeftAtExpiry
    this.#hasSeen = true
    this.#record = record
    this.#isOver = false
    this.#cancel()
    if (!record) return this.#options.onChange({ type: first ? 'state' : 'vanished', record })
    if (record.released) {
      // Each term ends once.
      if (wasOver) return
      if (isSameTerm && ranOut) return this.#runOut(record)
      return this.#options.onChange({ type: first ? 'state' : 'released', record })
    }
    const leftMs = Math.min(remainingMs, record.leaseDurationMs)
    this.#seenAtMs = now().machineMs - record.leaseDurationMs + leftMs
    this.#cancel = setTimer(leftMs, () => this.#runOut(record))
    if (first || !isSameTerm) this.#options.onChange({ type: first ? 'state' : 'elected', record })
    else this.#options.onChange({ type: 'renewed', record, revives: wasOver })
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

/** A service knows what is left of a lease, also of one whose beginning was not seen. */
async function lookInto(store: LeaseStore, election: string, call: CallOptions) {
  if (isService(store)) return store.look(election, call)
  return { record: await store.read(election, call), remainingMs: undefined }
}
