import { isTypo, nearest } from '@tenure/internal/nearest'
import { isObject } from '@tenure/internal/objects'
import { invalidOption, optionError, show } from './errors.ts'

type NameOf<T> = T extends unknown ? keyof T : never

/** Every name that options of type `T` may have. The compiler requires all of them, so none can be forgotten. */
export type OptionNames<T> = { readonly [Name in NameOf<T>]: unknown }

/**
 * Throws if `options` is not an options object or has an unknown name, because a misspelled option would be silently
 * ignored. An undefined option counts as omitted. `taker` is the function or class that takes the options, as in
 * `myStore()` or `MyClass`.
 *
 * @example
 * interface MyStoreOptions { readonly bucket: string; readonly prefix?: string }
 * const names: OptionNames<MyStoreOptions> = { bucket: true, prefix: true }
 *
 * function myStore(options: MyStoreOptions): LeaseStore {
 *   checkOptions('myStore()', options, names)
 *   return casStore(backendOf(options))
 * }
 */
export function checkOptions<T extends object>(taker: string, options: T, names: OptionNames<T>): void {
  checkKind(taker, options, names)
  for (const name of Object.keys(options)) {
    // Do not show its value: a misspelled token is still a token.
    if (!Object.hasOwn(names, name) && Reflect.get(options, name) !== undefined) throw unknownOption(taker, name, names)
  }
}

/**
 * Throws if the value is not an options object. An AbortSignal is rejected as well: it is an object, but if it were
 * passed instead of `{ signal }`, nothing would listen to it.
 */
function checkKind(taker: string, options: unknown, names: object): void {
  if (isObject(options) && !(options instanceof AbortSignal) && !isPromise(options)) return
  // A function or a class takes options. Any other taker is itself an option, such as "tls".
  const option = /\(\)$|^[A-Z]/.test(taker) ? 'options' : taker
  const rule = isPromise(options) ? 'await it first' : `{ ${Object.keys(names).join(', ')} }`
  throw invalidOption(option, options, `it must be an object: ${rule}`)
}

function unknownOption(taker: string, name: string, names: object): TypeError {
  const known = Object.keys(names)
  const meant = nearest(name, known)
  const advice = meant === undefined ? `It takes ${known.join(', ')}.` : `Did you mean "${meant}"?`
  return optionError({ option: name, advice }, `${taker} has no option ${show(name)}. ${advice}`)
}

/** Checks that a value has certain methods. */
export function checkMethods(option: string, value: unknown, methods: readonly string[], hint: string): void {
  const usable =
    typeof value === 'object' &&
    value !== null &&
    methods.every((method) => typeof Reflect.get(value, method) === 'function')
  if (usable) return
  if (isPromise(value)) throw invalidOption(option, value, `it must be ${hint}: await it first`)
  throw invalidOption(option, value, `it must be ${hint}, with the methods ${methods.join(', ')}`)
}

/**
 * Checks an object that users implement, which may have its own members. Throws only if an unknown member is probably a
 * misspelled optional member, because nothing would ever call it.
 */
export function checkMembers(option: string, value: object, optional: readonly string[]): void {
  const missing = optional.filter((member) => !(member in value))
  if (missing.length === 0) return
  for (const name of memberNames(value)) {
    const meant = missing.find((member) => isTypo(name, member))
    if (meant !== undefined) {
      const rule = `has a member ${show(name)}, which nothing uses`
      throw optionError({ option, rule, advice: `Did you mean "${meant}"?` })
    }
  }
}

/** The names of an object's own members and of the members that it inherits from its classes. */
function memberNames(value: object): string[] {
  const names = Object.keys(value)
  for (let type: unknown = Object.getPrototypeOf(value); type && type !== Object.prototype;) {
    names.push(...Object.getOwnPropertyNames(type))
    type = Object.getPrototypeOf(type)
  }
  return names
}

/** Whether a value is a promise or another thenable. */
export function isPromise(value: unknown): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'then') === 'function'
}
