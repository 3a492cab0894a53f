import { type ElectionEvent, isTenureError, type LeaseRecord, type TenureError } from 'tenure'
import { createFence } from 'tenure/fencing'
import type { Candidate } from './candidate.ts'
import type { Timeline } from './timeline.ts'
import type { World } from './world.ts'

/** Counts of what happened in a run. A run without a handover proves nothing about handovers. */
export interface Counts {
  grants: number
  handovers: number
  expiries: number
  superseded: number
  releases: number
  fencedWrites: number
  acceptedWrites: number
  unknownOutcomes: number
  unknownResolved: number
  longPauses: number
  sleeps: number
  crashes: number
  wallJumps: number
  vanished: number
  gaps: number
  /** Work that was started while the end of a leadership was being reported. */
  lateWork: number
  /** Rounds of work that continued after their leadership had ended. */
  lateRounds: number
  clones: number
  /** How many times an elector noticed its clone. */
  clonesNoticed: number
  /** How many times a guard released the lease of its process. */
  crashReleases: number
  /** How many times a guard was killed, paused or cut off, or its pipe was closed or full. */
  guardFaults: number
  /** How many times a candidate that the last leader had named took over. */
  handOvers: number
  /** How many times a leader stepped down because it was not eligible, or because its work made no progress. */
  unfit: number
  /** How often a seat was granted. */
  seats: number
  /** How often a candidate knew a present member of a newer generation when a term was released. */
  newerGenerations: number
  /** How often an administrator asked a leader to hand over, and how often that candidate led then. */
  requests: number
  requestsFollowed: number
}

/**
 * Which guarantees hold in a run. Clocks beyond their bound break exclusive belief, and deletion may break terms.
 * Fencing always holds.
 */
export interface Guarantees {
  readonly belief: boolean
  readonly terms: boolean
  readonly liveness: boolean
  readonly leaseDurationMs: number
  /** The time without a fault after which a leader must exist. */
  readonly leaderWithinMs: number
}

/** The limit of timers per second. An elector that spins sets hundreds of timers, and a busy one a few dozen. */
const busyTimers = 150

/** The state of each candidate that the checker reads. */
export type Participant = Pick<Candidate, 'name' | 'term' | 'machine' | 'believes' | 'hasReleased' | 'runsWorkOf'> &
  Partial<Pick<Candidate, 'overstays' | 'seat'>>

/** Checks the invariants of the design while a simulation runs. */
export class Checker {
  readonly violations: string[] = []
  /**
   * The first answer from the store that no elector can use. Faults do not corrupt answers, so the run cannot continue.
   */
  unusable: TenureError | undefined
  readonly counts: Counts = {
    grants: 0,
    handovers: 0,
    expiries: 0,
    superseded: 0,
    releases: 0,
    fencedWrites: 0,
    acceptedWrites: 0,
    unknownOutcomes: 0,
    unknownResolved: 0,
    longPauses: 0,
    sleeps: 0,
    crashes: 0,
    wallJumps: 0,
    vanished: 0,
    gaps: 0,
    lateWork: 0,
    lateRounds: 0,
    clones: 0,
    clonesNoticed: 0,
    crashReleases: 0,
    guardFaults: 0,
    handOvers: 0,
    unfit: 0,
    seats: 0,
    newerGenerations: 0,
    requests: 0,
    requestsFollowed: 0,
  }
  readonly #world: World
  readonly #timeline: Timeline
  readonly #promises: Guarantees
  readonly #termOfAttempt = new Map<string, number>()
  readonly #attemptOfSeat = new Map<string, string>()
  #highestTerm = 0
  #lastHolder: string | undefined
  /** The candidate that the last release named. */
  #successor: string | undefined
  readonly #fence = createFence({ resource: 'simulated' })
  #acceptedTerm = 0
  #faultAtMs = 0
  #ledAtMs = 0

  constructor(world: World, timeline: Timeline, promises: Guarantees) {
    this.#world = world
    this.#timeline = timeline
    this.#promises = promises
  }

  /** Records a fault that lasts until `untilMs`. Liveness is not guaranteed before that. */
  fault(untilMs: number): void {
    this.#faultAtMs = Math.max(this.#faultAtMs, untilMs)
  }

  /** I1, I10, I11: checks every candidate after each event. */
  inspect(candidates: readonly Participant[]): void {
    const believers = candidates.filter((candidate) => candidate.believes())
    if (believers.length > 0) this.#ledAtMs = this.#world.nowMs
    if (believers.length > 1 && this.#promises.belief) {
      this.violate(
        'I1',
        `${believers.map(({ name, term }) => `${name} (term ${term})`).join(' and ')} lead at the same time`,
      )
    }
    for (const { name, machine } of candidates) {
      if (machine.busiest > busyTimers) this.violate('I11', `${name} set ${machine.busiest} timers within a second`)
    }
    for (const { name } of candidates.filter((candidate) => candidate.overstays?.())) {
      this.violate('I10', `${name} still leads, although it should have stepped down`)
    }
    if (!this.#promises.liveness) return
    const quietSinceMs = Math.max(this.#faultAtMs, this.#ledAtMs)
    if (this.#world.nowMs - quietSinceMs <= this.#promises.leaderWithinMs) return
    this.violate('I10', `no candidate led for ${Math.round(this.#world.nowMs - quietSinceMs)} ms without a fault`)
    this.#ledAtMs = this.#world.nowMs
  }

  /** I2, I3, I4: checks a grant of the store. */
  granted(record: LeaseRecord, candidates: readonly Participant[]): void {
    const known = this.#termOfAttempt.get(record.attempt)
    if (known === record.term) return
    this.counts.grants += 1
    if (this.#lastHolder !== undefined && this.#lastHolder !== record.holder) this.counts.handovers += 1
    if (this.#successor === record.holder) this.counts.handOvers += 1
    if (record.successor !== undefined) this.violate('I10', `term ${record.term} was granted with a successor`)
    this.#lastHolder = record.holder
    this.#successor = undefined
    this.#timeline.add(this.#world.nowMs, 'store', `grants term ${record.term} to ${record.holder} (${record.attempt})`)
    if (this.#promises.terms) {
      if (known !== undefined) this.violate('I3', `attempt ${record.attempt} got terms ${known} and ${record.term}`)
      if (record.term <= this.#highestTerm) this.violate('I4', `term ${record.term} after term ${this.#highestTerm}`)
    }
    this.#termOfAttempt.set(record.attempt, record.term)
    this.#highestTerm = Math.max(this.#highestTerm, record.term)
    if (!this.#promises.belief) return
    for (const candidate of candidates) {
      if (candidate.believes() && candidate.term !== record.term) {
        this.violate(
          'I2',
          `term ${record.term} was granted while ${candidate.name} still believed in term ${candidate.term}`,
        )
      }
    }
  }

  /** I1: no two processes hold one seat. */
  seatGranted({ election, attempt, holder, version }: LeaseRecord, candidates: readonly Participant[]): void {
    if (this.#attemptOfSeat.get(election) === attempt) return
    this.#attemptOfSeat.set(election, attempt)
    this.counts.seats += 1
    if (!this.#promises.belief) return
    const others = candidates.filter(({ name, seat = -1 }) => name !== holder && election.endsWith(`.member.${seat}`))
    for (const { name } of others)
      this.violate('I1', `${holder} was granted ${election} (version ${version}) while ${name} still held it`)
  }

  /** I7: checks a release that the store applied. */
  released(record: LeaseRecord, candidates: readonly Participant[]): void {
    this.counts.releases += 1
    this.#successor = record.successor
    this.#timeline.add(this.#world.nowMs, 'store', `term ${record.term} of ${record.holder} is released`)
    for (const candidate of candidates) {
      if (candidate.hasReleased(record) && candidate.runsWorkOf(record.term)) {
        this.violate('I7', `term ${record.term} was released while ${candidate.name} was still working in it`)
      }
      if (candidate.term === record.term && candidate.believes()) {
        this.violate('I2', `term ${record.term} was released while ${candidate.name} still believed in it`)
      }
    }
  }

  /** I6: checks a leader's write when it arrives at the guarded resource. */
  write(term: number): void {
    try {
      this.#fence.check(term)
    } catch {
      this.counts.fencedWrites += 1
      return
    }
    this.counts.acceptedWrites += 1
    if (term < this.#acceptedTerm)
      this.violate('I6', `a write of term ${term} was accepted after a write of term ${this.#acceptedTerm}`)
    this.#acceptedTerm = term
  }

  /** I7, I10: checks an event of an elector. */
  event(candidate: Candidate, event: ElectionEvent): void {
    if (event.type === 'elected') {
      if (candidate.openTerm !== undefined) this.violate('I7', `${candidate.name} was elected twice without a loss`)
      if (candidate.isWorking)
        this.violate('I7', `${candidate.name} was elected while it was still working for an earlier term`)
      if (event.term <= candidate.lastTerm) this.violate('I7', `${candidate.name} went back to term ${event.term}`)
    } else if (event.type === 'lost') {
      if (candidate.openTerm !== event.term)
        this.violate('I7', `${candidate.name} lost term ${event.term} without having been elected in it`)
      if (event.reason === 'expired') this.counts.expiries += 1
      if (event.reason === 'superseded') this.counts.superseded += 1
      if (event.reason === 'ineligible' || event.reason === 'stalled') {
        this.counts.unfit += 1
        if (!candidate.unfitAtEnd[event.reason])
          this.violate('I10', `${candidate.name} stepped down (${event.reason}) although it might lead`)
      }
      const unforced = event.reason === 'expired' || event.reason === 'superseded'
      const calm = candidate.abortedAtMs - this.#faultAtMs > 2 * this.#promises.leaseDurationMs
      if (unforced && calm && this.#promises.liveness) {
        this.violate('I10', `${candidate.name} lost term ${event.term} (${event.reason}) without a fault`)
      }
      if (event.reason === 'expired' && this.#promises.liveness) this.#checkPatience(candidate)
    } else if (event.type === 'gap') {
      this.counts.gaps += 1
    } else if (event.type === 'new-leader') {
      this.#checkLeader(candidate, event.record)
    } else if (event.type === 'error' && isTenureError(event.error) && event.error.code === 'CLONED') {
      this.counts.clonesNoticed += 1
      if (this.counts.clones === 0) this.violate('I10', `${candidate.name} reported a clone although there was none`)
    }
  }

  /**
   * I10: an elector must not report a grant of its own attempt as a new leader, even long after it abandoned the
   * attempt.
   */
  #checkLeader(candidate: Candidate, record: LeaseRecord): void {
    if (!candidate.hasAskedFor(record) || this.counts.clones > 0 || candidate.elector.isLeader()) return
    this.violate('I10', `${candidate.name} reported its own grant of term ${record.term} as that of another leader`)
  }

  /** I10: failed renewals before the deadline, one or many, never end leadership. */
  #checkPatience(candidate: Candidate): void {
    // An answer that waited for a sleeping or paused machine belongs to a much older renewal.
    const stood = this.#world.nowMs - candidate.machine.resumedAtMs < 4 * this.#promises.leaseDurationMs
    if (stood || candidate.patientForMs >= candidate.leastPatienceMs) return
    this.violate(
      'I10',
      `${candidate.name} stepped down only ${Math.round(candidate.patientForMs)} ms after its last renewal`,
    )
  }

  violate(invariant: string, what: string): void {
    const text = `${invariant}: ${what}, at ${(this.#world.nowMs / 1000).toFixed(3)} s`
    this.#timeline.add(this.#world.nowMs, 'CHECK', `*** ${text}`)
    this.violations.push(text)
  }
}
