/**
 * Reads the seats of the other members once per retry interval, one read at a time.
 *
 * A leader reads the seats in use and the two after them, for requests to hand over. A standby reads only if it has a
 * generation, and then at most four seats per interval, whatever the number of members: it continues where it stopped.
 * Once it has seen a newer generation, it keeps reading, because that member may leave.
 *
 * A failed read ends the round. The election reports a store that fails, and what was seen counts until it expires.
 */
import { pause } from '@tenure/internal/pause'
import type { Clock } from '../../common/clock.ts'
import type { ElectionState } from '../election-state.ts'
import type { LeaseStore } from '../lease-store.ts'
import type { NewerGeneration } from '../preference.ts'
import { MemberObserver } from './members.ts'
import { newerGenerationIn, requestedSuccessor } from './present-members.ts'

/** How many seats a standby reads per retry interval. */
const standbyReads = 4

/** What a survey needs from its elector. */
export interface SurveyHost {
  readonly retryIntervalMs: number
  phase(): ElectionState['phase']
  /** The term in which this process leads. Undefined if it does not lead. */
  term(): number | undefined
  /** Called when a member of a newer generation is first seen, has renewed, or has left. */
  onNewerGeneration(newer: NewerGeneration | undefined): void
  /** Called when this leader should follow a request. */
  onHandOverRequest(to: string): void
}

/** What a survey needs to know about its process and group. */
interface SurveySettings {
  readonly store: LeaseStore
  readonly group: string
  readonly identity: string
  readonly generation: number | undefined
  readonly maxMembers: number
  readonly clock: Clock
  readonly signal: AbortSignal
  ownSeat(): number | undefined
}

/** Reads the seats until `signal` aborts. */
export class SeatSurvey {
  readonly #host: SurveyHost
  readonly #settings: SurveySettings
  readonly #observer: MemberObserver
  #newer: NewerGeneration | undefined

  constructor(host: SurveyHost, settings: SurveySettings) {
    this.#host = host
    this.#settings = settings
    const { store, group, maxMembers, clock, signal } = settings
    const timeoutMs = 2 * host.retryIntervalMs
    this.#observer = new MemberObserver(store, group, { maxMembers, clock, timeoutMs, signal })
  }

  async run(): Promise<void> {
    const { clock, signal } = this.#settings
    while (!signal.aborted) {
      await pause(clock, this.#host.retryIntervalMs, signal)
      if (!signal.aborted) await this.#look().catch(() => undefined)
    }
  }

  async #look(): Promise<void> {
    const phase = this.#host.phase()
    const { identity, generation, ownSeat } = this.#settings
    if (phase === 'leading') {
      await this.#observer.readNext(Infinity, ownSeat())
      const term = this.#host.term()
      if (term === undefined) return
      const to = requestedSuccessor(this.#observer.present(), { identity, term })
      if (to !== undefined) this.#host.onHandOverRequest(to)
    } else if (phase === 'standby' && generation !== undefined) {
      await this.#observer.readNext(standbyReads, ownSeat())
      this.#tell(newerGenerationIn(this.#observer.present(), generation))
    }
  }

  #tell(newer: NewerGeneration | undefined): void {
    if (newer?.generation === this.#newer?.generation && newer?.untilMs === this.#newer?.untilMs) return
    this.#newer = newer
    this.#host.onNewerGeneration(newer)
  }
}
