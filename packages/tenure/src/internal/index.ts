/**
 * The parts of the engine that Tenure's own packages need: the checks of options, the algorithm's state, and its
 * driver. Internal to Tenure's own packages: it may change in any release, so they depend on this exact version.
 *
 * @module
 */
export { checkMembers, checkOptions, type OptionNames } from '../common/check-options.ts'
export { systemClock } from '../common/clock.ts'
export { invalidOption, isVoluntaryEnd } from '../common/errors.ts'
export {
  checkBoolean,
  checkOneOf,
  checkpointLimitOf,
  checkStore,
  metadataLimitBytes,
  usualCheckpointLimitBytes,
} from '../engine/check-values.ts'
export { Driver, type DriverState } from '../engine/driver.ts'
export {
  dueWith,
  memoryWith,
  recordWith,
  sightWith,
  stateWith,
  valueWith,
  writeIdWith,
  type FieldVisitor,
  type Memory,
} from '../engine/election-fields.ts'
export {
  beliefEndOf,
  deadlineOf,
  initialState,
  leadsAt,
  type Call,
  type Effect,
  type ElectionState,
  type OwnAttempt,
  type ElectionSettings,
} from '../engine/election-state.ts'
export { ElectorGuard, type GuardRegistry } from '../engine/guard/elector-guard.ts'
export {
  guardStep,
  initialGuardState,
  nextGuardWakeMs,
  type GuardedAttempt,
  type GuardEffect,
  type GuardInput,
  type GuardState,
} from '../engine/guard/guard.ts'
export { noPreference, priorities, type NewerGeneration, type PreferenceAnswer } from '../engine/preference.ts'
export { rememberOrigin } from '../engine/guard/store-origin.ts'
export { createLeadership, leadsByClock, leaseOf, lossOf, resumeFrom, type OwnLeadership } from './engine.ts'
export { decodeOffer, decodeReport, isMember } from '../engine/members/member-record.ts'
export { MemberObserver } from '../engine/members/members.ts'
export { overviewOf, type ShardOverview, type ShardsMember, type ShardsOverview } from '../shards/overview.ts'
export { createSupervisedShards, type SeatListener, type SupervisedShards } from '../shards/shards.ts'
export { requestHandOver, type HandOverOutcome, type HandOverRequest } from '../engine/members/request-hand-over.ts'
export { seatName } from '../engine/members/seats.ts'
export type { ObservedVersion } from '../engine/observed-expiry.ts'
export { endsWithContainer, GuardLink, introduction } from '../engine/guard/guard-link.ts'
export { checkFound, checkOutcome } from '../engine/store-calls.ts'
export { checkDuration, latestDeadlineMs, timingsOf } from '../engine/timings.ts'
