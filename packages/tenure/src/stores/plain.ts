import type { LeaseStore } from '../lease-store.ts'

/** A store whose claims are judged elsewhere, as a plain object: its fields, and its methods bound to it. */
export function plainStore<Store extends LeaseStore>(store: Store): Store {
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(store)).filter((name) => name !== 'constructor')
  const bound = methods.map((name) => [name, (Reflect.get(store, name) as () => unknown).bind(store)] as const)
  return { ...store, ...Object.fromEntries(bound) }
}
