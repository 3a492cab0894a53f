import { readFileSync } from 'node:fs'
import { invalidOption, TenureError, type ErrorDetails } from '../../../common/errors.ts'
import { clientNodePackage } from './client-node.ts'
import { parseYaml, YamlError, type YamlMap, type YamlValue } from './yaml.ts'

const elsewhere = `Pass a KubeConfig from @kubernetes/client-node as the client instead (npm install ${clientNodePackage(process.versions.node)}).`

/** A kubeconfig file. Messages show only its names, never its other content. */
export class KubeConfigFile {
  readonly path: string
  readonly #root: Section
  readonly #hint: string

  constructor(path: string, isFirstOfSeveral: boolean) {
    this.path = path
    this.#hint = isFirstOfSeveral ? ' (only the first file in KUBECONFIG is read)' : ''
    this.#root = new Section(path, 'The top level', mapOf(parse(path)) ?? fail(`${path} is not a kubeconfig.`))
  }

  /** A context by its name. Default: the current context. */
  context(name: string | undefined): Section {
    const names = this.#entries('context').map((entry) => entry.text('name'))
    const list = names.map((one) => JSON.stringify(one)).join(', ') || 'none'
    const known = `the contexts of ${this.path}: ${list}${this.#hint}`
    if (name !== undefined && !names.includes(name)) throw invalidOption('context', name, `it must be one of ${known}`)
    const wanted = name ?? this.#root.text('current-context')
    if (wanted === undefined || !names.includes(wanted)) {
      const current = wanted === undefined ? 'is not set' : `is ${JSON.stringify(wanted)}, which does not exist`
      const advice = `Pass fromKubeConfig() one of ${known}.`
      const details = { option: 'context', rule: `one of ${known}`, advice }
      fail(`The current-context of ${this.path} ${current}. ${advice}`, undefined, details)
    }
    return this.#named('context', wanted)
  }

  /** The cluster or the user that a context names. */
  entry(kind: 'cluster' | 'user', context: Section): Section {
    return this.#named(kind, context.text(kind) ?? context.fail(`names no ${kind}`))
  }

  #named(kind: 'cluster' | 'context' | 'user', name: string): Section {
    const found = this.#entries(kind).filter((entry) => entry.text('name') === name)
    const what = `${kind} ${JSON.stringify(name)}`
    const [entry] = found
    if (!entry) fail(`${this.path} has no ${what}, which its context refers to${this.#hint}.`)
    if (found.length > 1) fail(`${this.path} has more than one ${what}.`)
    return entry.inner(kind, what)
  }

  #entries(kind: string): Section[] {
    return this.#root.list(`${kind}s`)
  }
}

/** A mapping in a kubeconfig, and its name in messages. */
export class Section {
  readonly path: string
  readonly #what: string
  readonly #map: YamlMap

  constructor(path: string, what: string, map: YamlMap) {
    this.path = path
    this.#what = what
    this.#map = map
  }

  /** Returns the string under a key. Undefined if the key is missing or its value is empty. */
  text(key: string): string | undefined {
    const value = this.#map.get(key) ?? ''
    if (typeof value !== 'string') this.fail(`has a ${key} that is not a string (put it in quotes)`)
    return value === '' ? undefined : value
  }

  flag(key: string): boolean {
    const value = this.#map.get(key) ?? false
    return typeof value === 'boolean' ? value : this.fail(`has a ${key} that is not a boolean`)
  }

  list(key: string): Section[] {
    const value = this.#map.get(key) ?? []
    if (!Array.isArray(value)) this.fail(`has a ${key} field that is not a list`)
    return (value as readonly YamlValue[]).map((item, index) => {
      const what = `Entry ${index + 1} of ${key}`
      return new Section(this.path, what, mapOf(item) ?? this.fail(`has an entry without a name in ${key}`))
    })
  }

  inner(key: string, what: string): Section {
    const value = this.#map.get(key) ?? new Map()
    return new Section(this.path, `The ${what}`, mapOf(value) ?? this.fail(`has a ${key} that is not a mapping`))
  }

  /** Fails if the key has a value. */
  refuse(key: string, advice = elsewhere): void {
    const value = this.#map.get(key) ?? ''
    const isEmpty = value === '' || (Array.isArray(value) && value.length === 0) || mapOf(value)?.size === 0
    if (isEmpty) return
    const details = advice === elsewhere ? { option: 'client', advice } : undefined
    fail(`${this.#what} of ${this.path} has "${key}", which is not supported here. ${advice}`, undefined, details)
  }

  attempt(failure: string, act: () => unknown): void {
    try {
      act()
    } catch (cause) {
      throw this.problem(failure, cause)
    }
  }

  /** A sentence that says that a key has this value. */
  says(key: string, value: string): string {
    return `${this.#what} of ${this.path} has the ${key} ${JSON.stringify(value)}.`
  }

  fail(what: string): never {
    throw this.problem(what)
  }

  problem(what: string, cause?: unknown): TenureError {
    return new TenureError('BACKEND_UNAVAILABLE', `${this.#what} of ${this.path} ${what}.`, { cause })
  }
}

function parse(path: string): YamlValue {
  const text = read(path)
  try {
    return parseYaml(text)
  } catch (error) {
    if (!(error instanceof YamlError)) throw error
    const advice = '`kubectl config view --raw --flatten` converts it to plain YAML.'
    fail(`The kubeconfig ${path} cannot be parsed, ${error.message}. ${advice}`, error)
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    const advice = 'Pass its path to fromKubeConfig(), or set KUBECONFIG. In a pod, use inCluster().'
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    fail(
      isMissing
        ? `The kubeconfig ${path} does not exist. ${advice}`
        : `The kubeconfig ${path} cannot be read. ${advice}`,
      cause,
      { option: 'path', advice },
    )
  }
}

function mapOf(value: YamlValue | undefined): YamlMap | undefined {
  return value instanceof Map ? value : undefined
}

function fail(message: string, cause?: unknown, details?: ErrorDetails): never {
  throw new TenureError('BACKEND_UNAVAILABLE', message, { cause, ...details })
}
