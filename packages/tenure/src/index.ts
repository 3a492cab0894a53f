/** Leader election that stays correct when machines stall, networks partition, and clocks are wrong. */
export type { Clock, Timer } from './common/clock.ts'
export { Elector, type ElectorOptions, type StartOptions } from './engine/elector.ts'
export type { StepDownOptions } from './engine/step-down.ts'
export type { PreferenceOptions } from './engine/ask-preference.ts'
export type { HeldBackBy, Priority } from './engine/preference.ts'
export {
  isTenureError,
  LeadershipLostError,
  TenureError,
  type ErrorCode,
  type ErrorDetails,
  type LossReason,
} from './common/errors.ts'
export type { CallReport, ElectionEvent, Observer, Origin } from './engine/events.ts'
export type { Explanation } from './engine/explain.ts'
export type { Leadership } from './engine/leadership.ts'
export {
  absentVersion,
  type AcquireClaim,
  type CallOptions,
  type ForgetClaim,
  type Forgotten,
  type Granted,
  type HeldClaim,
  type JsonValue,
  type LeaseRecord,
  type LeaseStore,
  type ListOptions,
  type ListPage,
  type LeaseStatus,
  type Metadata,
  type Outcome,
  type Refused,
  type WatchOptions,
} from './engine/lease-store.ts'
export { members, type Member, type MembersOptions } from './engine/members/members.ts'
export type { Log } from './log/log.ts'
export { electionMetrics, type ElectionMetrics } from './telemetry/metrics.ts'
export type { Change, Observation } from './engine/observation.ts'
export { observe, type ObserveOptions } from './engine/observe.ts'
export { casStore, type CompareAndSwap, type VersionedValue } from './store-kit/cas-store.ts'
export { memoryStore, type MemoryStore } from './stores/memory/index.ts'
export { ttlStore, type TtlStorage } from './store-kit/ttl-store.ts'
export { createElections, type Elections, type ElectionsOptions } from './api/create-elections.ts'
export { lead, type LeadOptions } from './api/lead.ts'
export { LeaderElector } from './api/leader-elector.ts'
export type { LeaderCallbacks, LeaderElectorOptions, StoreElectorOptions } from './api/leader-elector-options.ts'
export { Lease, Manager, type ManagerOptions } from './api/manager.ts'
export { withLock, type HeldLock, type LockOptions } from './api/with-lock.ts'
export { resolveTimings, type TimingOptions, type Timings } from './engine/timings.ts'
