/** The checker of one transition: it counts what happened, records violations, and describes the steps in words. */
import { isTenureError, type LeaseRecord, type LossReason } from 'tenure'
import { beliefEndOf, type Call, deadlineOf, type Effect, type ElectionState, leadsAt } from 'tenure/internal'
import { messageOf } from '@tenure/internal/message'
import {
  isProcess,
  leaseDurationMs,
  type ExploredFault,
  type Fault,
  type ModelProcess,
  type ModelState,
  type ModelServer,
  type Setup,
} from './model-state.ts'

/** What an exploration covered, over all transitions. */
export interface ExploredCounts {
  grants: number
  handovers: number
  expiries: number
  superseded: number
  releases: number
  unknownOutcomes: number
  /** Leaderships that began with a read, which found that the store had applied an acquire without an answer. */
  unknownResolved: number
  /** How many times a guard released the lease of a process that had ended. */
  crashReleases: number
  /** How many times the candidate that a release named took over. */
  handOvers: number
  /** How many times a leader stepped down because it was not eligible, or because its work made no progress. */
  unfit: number
  /** How many times each kind of fault occurred. */
  readonly faults: { [Kind in ExploredFault]?: number }
}

/** The rounding error of clocks that run at a rate other than 1. */
const roundingMs = 1e-6

/** Checks one transition. */
export class TransitionChecker {
  violation: string | undefined
  readonly counts: ExploredCounts
  readonly #tell: ((who: string, what: string) => void) | undefined
  readonly #mostStrain: number

  constructor(counts: ExploredCounts, setup: Setup, tell?: (who: string, what: string) => void) {
    this.counts = counts
    this.#mostStrain = mostStrain(setup)
    this.#tell = tell
  }

  tell(who: string, what: () => string): void {
    this.#tell?.(who, what())
  }

  violate(rule: string, what: string): void {
    this.violation ??= `${rule}: ${what}`
  }

  fault(kind: Fault): void {
    const counted: { [kind: string]: number | undefined } = this.counts.faults
    counted[kind] = (counted[kind] ?? 0) + 1
  }

  /** I1: at most one running process answers that it leads. I10: no process waits forever. */
  inspect({ slots }: ModelState): void {
    for (const slot of slots) {
      if (!isProcess(slot) || slot.life !== 'running' || slot.state.phase === 'ending') continue
      if (slot.wakeAtMs === undefined && slot.flight === undefined)
        this.violate('I10', `${nameOf(slot.state)} waits without a timer and without a call in flight`)
    }
    const leaders = slots.filter(isProcess).filter(({ life, state }) => life === 'running' && leadsAt(state, 0))
    if (leaders.length < 2) return
    this.violate('I1', `${leaders.map(({ state }) => nameOf(state)).join(' and ')} lead at the same time`)
  }

  /** I10: a leader that should not lead steps down in time. Checked when nothing else is due in this tick. */
  waits({ slots }: ModelState): void {
    for (const { life, state, unfitBy, unfitSinceMs } of slots.filter(isProcess)) {
      if (life !== 'running' || unfitBy === undefined || !leadsAt(state, 0)) continue
      const { settings } = state
      const patienceMs = unfitBy === 'ineligible' ? settings.ineligibleForMs : settings.progressTimeoutMs
      if (-unfitSinceMs <= patienceMs + settings.retryIntervalMs + roundingMs) continue
      this.violate('I10', `${nameOf(state)} still leads, although it has been unfit for too long (${unfitBy})`)
    }
  }

  /** I2, I3, I4: checks a grant before the store writes it. */
  granted(scene: ModelState, record: LeaseRecord): void {
    const { server } = scene
    this.counts.grants += 1
    if (server.record && server.record.holder !== record.holder) this.counts.handovers += 1
    if (server.record?.successor === record.holder) this.counts.handOvers += 1
    if (record.successor !== undefined) this.violate('I10', `term ${record.term} is granted with a successor`)
    if (server.granted.includes(record.attempt)) this.violate('I3', `an attempt of ${record.holder} is granted twice`)
    if (record.term <= server.highestTerm) {
      this.violate('I4', `term ${record.term} is granted after term ${server.highestTerm}`)
    }
    for (const { state, gaveBack } of scene.slots.filter(isProcess)) {
      const term = state.grant?.record.term
      if (term === undefined || term === record.term || gaveBack) continue
      if (beliefEndOf(state) > roundingMs) {
        this.violate('I2', `term ${record.term} is granted before the belief of ${nameOf(state)} in term ${term} ends`)
      }
    }
  }

  /** I7: checks a release before the store writes it. */
  released(scene: ModelState, { term }: LeaseRecord): void {
    this.counts.releases += 1
    for (const { state, open, ledTerm, work } of scene.slots.filter(isProcess)) {
      if (ledTerm !== term) continue
      if (leadsAt(state, 0)) this.violate('I2', `term ${term} is released while ${nameOf(state)} leads it`)
      if (open && work > 0) this.violate('I7', `term ${term} is released while ${nameOf(state)} works`)
    }
  }

  /** Checks a call that a process is about to send. `inFlight`: its previous call has not ended. */
  sends({ state, open, work, unfitBy, unfitSinceMs }: ModelProcess, call: Call, inFlight: boolean): void {
    const name = nameOf(state)
    // It may have been asked just before it became ineligible, within the same moment.
    if (call.verb === 'acquire' && unfitBy === 'ineligible' && unfitSinceMs < 0)
      this.violate('I10', `${name} contends although it is not eligible`)
    if (inFlight) this.violate('I9', `${name} has two calls in flight`)
    if (call.verb === 'renew' && deadlineOf(state) <= 0) this.violate('I5', `${name} renews after its belief ended`)
    const isOwn = call.verb === 'release' && call.claim.term === state.grant?.record.term
    if (isOwn && (open || work > 0)) this.violate('I7', `${name} releases before its work has settled`)
  }

  /** I5: a belief that has ended stays ended, no matter what arrives. */
  believes(before: ElectionState, after: ElectionState): void {
    const term = before.grant?.record.term
    if (term === undefined || after.grant?.record.term !== term) return
    if (deadlineOf(before) <= 0 && deadlineOf(after) > 0) {
      this.violate('I5', `${nameOf(after)} believes again in term ${term}, which had ended`)
    }
  }

  /** I7, I10: checks what a process reports. `strain`: which failures the faults so far excuse. */
  reports(process: ModelProcess, effect: Effect, strain: number): void {
    const { state, ledTerm, open, work } = process
    const name = nameOf(state)
    switch (effect.type) {
      case 'elected':
        if (open) this.violate('I7', `${name} is elected twice without a loss`)
        if (work > 0) this.violate('I7', `${name} is elected while it still works for an earlier term`)
        if (effect.record.term <= ledTerm) this.violate('I7', `${name} goes back to term ${effect.record.term}`)
        return
      case 'ended':
        if (!open) this.violate('I7', `${name} ends a leadership that it does not have`)
        if (effect.reason === 'expired') this.counts.expiries += 1
        if (effect.reason === 'superseded') this.counts.superseded += 1
        if (effect.reason === 'ineligible' || effect.reason === 'stalled') this.counts.unfit += 1
        if (!this.#isExcused(process, effect.reason, strain)) {
          this.violate('I10', `${name} loses its term (${effect.reason}) without a fault that excuses it`)
        }
        return
      case 'stopped':
        if (!process.toldToStop) this.violate('I10', `${name} stops without being told to`)
        if (open) this.violate('I7', `${name} stops without reporting the loss of its term`)
        return
      case 'lost':
        if (!open) this.violate('I7', `${name} reports the loss of a term that it does not have`)
        return
      case 'error':
        if (!isTenureError(effect.error)) return
        if (effect.error.code === 'RECORD_INVALID' || effect.error.code === 'CLONED') {
          this.violate('I10', `${name} reports an error from a correct store: ${messageOf(effect.error)}`)
        }
    }
  }

  #isExcused(process: ModelProcess, reason: LossReason, strain: number): boolean {
    const { toldToStop, toldToYield, disturbed, unfitBy } = process
    if (reason === 'stopped') return toldToStop
    if (reason === 'released' || reason === 'handed-over') return toldToYield
    // No preference ever changes a leader that is eligible and makes progress.
    if (reason === 'ineligible') return unfitBy === 'ineligible'
    if (reason === 'stalled') return unfitBy === 'no-progress'
    return disturbed || strain > this.#mostStrain
  }
}

/**
 * How many failed calls a leadership must survive: one if answers are immediate, none if two slow calls fit before its
 * end.
 */
function mostStrain({ delayTicks, tickMs }: Setup): number {
  if (delayTicks === 0) return 1
  return 2 * delayTicks * tickMs < leaseDurationMs / 6 ? 0 : -1
}

/** Returns counts that are all 0. */
export function noCounts(): ExploredCounts {
  return {
    grants: 0,
    handovers: 0,
    expiries: 0,
    superseded: 0,
    releases: 0,
    unknownOutcomes: 0,
    unknownResolved: 0,
    crashReleases: 0,
    handOvers: 0,
    unfit: 0,
    faults: {},
  }
}

function nameOf({ settings }: { readonly settings: { readonly identity: string } }): string {
  return settings.identity
}

/** The remaining time of a lease if the server decides expiry, otherwise undefined. */
export function remainingMs({ endsAtMs }: ModelServer, expiry: 'observed' | 'own-clock'): number | undefined {
  return expiry === 'own-clock' ? endsAtMs : undefined
}
