/**
 * For authors of stores: the rules that every store follows, builders that turn a backend into a store, the encoding of
 * a record, and the checks of options.
 *
 * @module
 */
export { checkOptions, type OptionNames } from '../common/check-options.ts'
export { systemClock } from '../common/clock.ts'
export { invalidOption } from '../common/errors.ts'
export { swapStore, type ClosableStore, type SwapOutcome, type SwapServer } from './compare-and-swap-store.ts'
export type { Finding, InspectableStore } from './diagnostics.ts'
export type { Page } from './list.ts'
export { buildStore, type StoreBackend } from './locking-store.ts'
export { decodeRecord, encodeRecord } from './record.ts'
export {
  granted,
  judgeAcquire,
  judgeForget,
  judgeRelease,
  judgeRenew,
  refused,
  type Current,
  type RecordDraft,
  type Verdict,
} from './rules.ts'
