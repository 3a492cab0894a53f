/** How a store was opened. The guard must open it again in another process. */
import type { LeaseStore } from '../lease-store.ts'
import type { GuardRegistry } from './elector-guard.ts'

interface StoreOrigin {
  readonly url: string
  /** Whether crash detection was disabled for the store. */
  readonly isSlow: boolean
  /** Where electors of a simulated process register. Default: the pipe of this process. */
  readonly link?: GuardRegistry | undefined
}

const origins = new WeakMap<LeaseStore, StoreOrigin>()

/** Remembers the URL that a store was opened by. */
export function rememberOrigin(store: LeaseStore, origin: StoreOrigin): void {
  origins.set(store, origin)
}

/** Returns undefined if the store was not opened by a URL. */
export function storeOriginOf(store: LeaseStore): StoreOrigin | undefined {
  return origins.get(store)
}
