/** Leader election that stays right when machines stall, networks split and clocks lie. */
export type { Clock, Timer } from './clock.ts'
export { Elector, type ElectorOptions, type StartOptions } from './elector.ts'
export {
  isTenureError,
  LeadershipLostError,
  TenureError,
  type ErrorCode,
  type ErrorDetails,
  type LossReason,
} from './errors.ts'
export type { CallReport, ElectionEvent, Observer, Origin } from './events.ts'
export type { Explanation } from './explain.ts'
export type { Leadership } from './leadership.ts'
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
} from './lease-store.ts'
export type { Log } from './log.ts'
export { electionMetrics, type ElectionMetrics } from './metrics.ts'
export type { Change, Observation } from './observation.ts'
export { observe, type ObserveOptions } from './observe.ts'
export { casStore, type CompareAndSwap, type VersionedValue } from './stores/cas.ts'
export { memoryStore, type MemoryStore } from './stores/memory.ts'
export { ttlStore, type TtlStorage } from './stores/ttl.ts'
export { createElections, type Elections, type ElectionsOptions } from './styles/elections.ts'
export { lead, type LeadOptions } from './styles/lead.ts'
export { LeaderElector } from './styles/leader-elector.ts'
export type { LeaderCallbacks, LeaderElectorOptions, StoreElectorOptions } from './styles/leader-elector-options.ts'
export { Lease, Manager, type ManagerOptions } from './styles/manager.ts'
export { resolveTimings, type TimingOptions, type Timings } from './timings.ts'
