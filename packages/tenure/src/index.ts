/** Leader election that stays right when machines stall, networks split and clocks lie. */
export type { Clock, Timer } from './common/clock.ts'
export { Elector, type ElectorOptions, type StartOptions } from './engine/elector.ts'
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
  type Look,
  type Metadata,
  type Outcome,
  type Refused,
  type WatchOptions,
} from './engine/lease-store.ts'
export type { Log } from './log/log.ts'
export { electionMetrics, type ElectionMetrics } from './telemetry/metrics.ts'
export type { Change, Observation } from './engine/observation.ts'
export { observe, type ObserveOptions } from './engine/observe.ts'
export { casStore, type CompareAndSwap, type VersionedValue } from './store-kit/cas-store.ts'
export { memoryStore, type MemoryStore } from './stores/memory/index.ts'
export { ttlStore, type TtlStorage } from './store-kit/ttl-store.ts'
export { createElections, type Elections, type ElectionsOptions } from './api/elections.ts'
export { lead, type LeadOptions } from './api/lead.ts'
export { LeaderElector } from './api/leader-elector.ts'
export type { LeaderCallbacks, LeaderElectorOptions, StoreElectorOptions } from './api/leader-elector-options.ts'
export { Lease, Manager, type ManagerOptions } from './api/manager.ts'
export { resolveTimings, type TimingOptions, type Timings } from './engine/timings.ts'
