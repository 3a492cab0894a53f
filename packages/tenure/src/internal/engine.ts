/** Functions for Tenure's own packages. They use members of the engine's classes that users do not see. */
import { Lease } from '../api/manager.ts'
import type { LeadershipLostError, LossReason } from '../common/errors.ts'
import type { Elector } from '../engine/elector.ts'
import { Leadership, type LeadershipHost } from '../engine/leadership.ts'

/** A leadership that its creator can end. */
export interface OwnLeadership extends Leadership {
  /** Undefined until it has ended. */
  readonly loss: LeadershipLostError | undefined
  end(reason: LossReason): LeadershipLostError
}

/** Creates a leadership without an elector. */
export function createLeadership(host: LeadershipHost, term: number): OwnLeadership {
  return new Leadership(host, term)
}

/** Returns why a leadership has ended, without asking the clock. Undefined if it has not. */
export function lossOf(leadership: Leadership): LeadershipLostError | undefined {
  return leadership.loss
}

/** Whether an elector leads according to its clock. Unlike `isLeader()`, it does not end an expired leadership. */
export function leadsByClock(elector: Elector): boolean {
  return elector.leadsByClock()
}

/** Makes an elector continue from a snapshot of another one, like a clone on its own machine. */
export function resumeFrom(elector: Elector, original: Elector): void {
  elector.resumeFrom(original)
}

/** Returns the lease of an elector that has no manager. */
export function leaseOf(elector: Elector): Lease {
  return new Lease(elector)
}
