import type { LeaseStore } from '../engine/lease-store.ts'

/**
 * Turns a store that does not use the shared rules into a plain object: its fields, and its methods bound to the store.
 */
export function plainStore<Store extends LeaseStore>(store: Store): Store {
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(store)).filter((name) => name !== 'constructor')
  const bound = methods.map((name) => [name, (Reflect.get(store, name) as () => unknown).bind(store)] as const)
  return { ...store, ...Object.fromEntries(bound) }
}
