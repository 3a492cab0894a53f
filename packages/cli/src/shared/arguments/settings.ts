import { nearest } from '@tenure/internal/nearest'
import { Option, type Command } from 'commander'
import { usageError } from './errors.ts'
import { InvalidValue } from './invalid-value.ts'
import { didYouMean } from './suggestions.ts'

/** The directory that relative paths are resolved against. */
export interface BaseDirectory {
  readonly directory: string
}

/**
 * A setting that the user can give by flag, environment or file, in this order of precedence. Each command has one
 * table of its settings, keyed by their names in the file: `minTtl` there is `--min-ttl` and `TENURE_MIN_TTL`.
 */
export interface Setting<T> {
  /** The placeholder for the value in the help. Undefined for a setting that is on or off. */
  readonly placeholder: string | undefined
  readonly help: string
  /** The default as shown in the help. Undefined if there is none to show. */
  readonly shownDefault: string | undefined
  readonly fallback: T
  /** Parses the value. A setting with many values gets all of them. Throws a {@link InvalidValue}. */
  parse(texts: readonly string[], from: BaseDirectory): T
  /**
   * Whether the setting can be given several times. `as-flag`: only as a flag. In the environment it is one value,
   * which may contain commas.
   */
  readonly many: boolean | 'as-flag'
  /**
   * Whether the setting has no flag, because it is rarely needed. It is read only from the file and the environment.
   */
  readonly withoutFlag: boolean
  /**
   * Whether the setting has no variable, because `tenure run` sets that variable for its command with another meaning.
   * It is read only from a flag and the file.
   */
  readonly withoutVariable: boolean
  /**
   * For a setting with a value, the help of its flag `--no-…`, which gives the value `false`. Undefined if it has none.
   */
  readonly negationHelp: string | undefined
  /** Another name for the setting, as a flag and as a variable. */
  readonly alias: string | undefined
}

/** Settings by their names in the file. */
export type SettingsTable = Readonly<Record<string, Setting<unknown>>>

/** The values of a table's settings. */
export type SettingValues<T extends SettingsTable> = {
  readonly [Key in keyof T]: T[Key] extends Setting<infer Value> ? Value : never
}

/** The contents of a configuration file. */
export type Configuration = Readonly<Record<string, unknown>>

type SettingOptions = Partial<Omit<Setting<unknown>, 'fallback' | 'parse' | 'many'>> & { readonly help: string }

const plain = {
  placeholder: undefined,
  shownDefault: undefined,
  many: false,
  withoutFlag: false,
  withoutVariable: false,
  negationHelp: undefined,
  alias: undefined,
} as const

/** Creates a setting with one value. */
export function setting<T>(
  look: SettingOptions,
  parse: (text: string, from: BaseDirectory) => T,
): Setting<T | undefined>
export function setting<T>(
  look: SettingOptions,
  parse: (text: string, from: BaseDirectory) => T,
  fallback: T,
): Setting<T>
export function setting<T>(
  look: SettingOptions,
  parse: (text: string, from: BaseDirectory) => T,
  fallback?: T,
): Setting<T | undefined> {
  const shownDefault = fallback === undefined ? undefined : String(fallback)
  return { ...plain, shownDefault, ...look, fallback, parse: ([text = ''], from) => parse(text, from) }
}

/**
 * Creates a setting that can be given several times. It is comma-separated in the environment, and a list in the file.
 */
export function listSetting(look: SettingOptions, parse: (text: string) => string): Setting<readonly string[]> {
  return { ...plain, ...look, fallback: [], parse: (texts) => texts.map((text) => parse(text)), many: true }
}

/** Creates a setting that is a comma-separated list in every source. */
export function commaSetting(look: SettingOptions, parse: (text: string) => string): Setting<readonly string[]> {
  const split = (texts: readonly string[]) => texts.flatMap((text) => text.split(',')).map((part) => part.trim())
  return { ...listSetting(look, parse), parse: (texts) => split(texts).map((text) => parse(text)) }
}

/** Creates a setting that is on or off. */
export function toggle(
  help: string,
  { fallback = false, shownDefault }: Partial<Setting<boolean>> = {},
): Setting<boolean> {
  const parse = ([text = '']: readonly string[]) => {
    if (text === 'true' || text === '1') return true
    if (text === 'false' || text === '0') return false
    throw new InvalidValue('must be true or false')
  }
  return { ...plain, help, shownDefault, fallback, parse }
}

/** The flag for a key: `minTtl` is `--min-ttl`. */
export function flagOf(key: string): string {
  return `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/** The environment variable for a key: `minTtl` is `TENURE_MIN_TTL`. */
export function variableOf(key: string): string {
  return `TENURE_${key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
}

/** Adds a flag to the command for each setting that has one. */
export function addFlags(command: Command, table: SettingsTable): void {
  for (const [key, setting] of Object.entries(table)) {
    const { placeholder, help, shownDefault, many, withoutFlag, negationHelp, alias } = setting
    if (withoutFlag) continue
    const flag = flagOf(key)
    const text = shownDefault === undefined ? help : `${help} (default: ${shownDefault})`
    const option = new Option(placeholder === undefined ? flag : `${flag} <${placeholder}>`, text)
    if (many !== false)
      option.argParser((value: string, before: readonly string[] | undefined) => [...(before ?? []), value])
    command.addOption(option)
    if (alias !== undefined) command.option(`${flagOf(alias)} <${placeholder}>`, `the same as ${flag}`)
    const negation = new Option(flag.replace('--', '--no-'), negationHelp)
    // Lets a flag turn off a setting that the environment or the file turned on.
    if (placeholder === undefined) command.addOption(negation.hideHelp())
    else if (negationHelp !== undefined) command.addOption(negation)
  }
}

/** The sources of values, in order of precedence. */
export interface Sources {
  readonly flags: Readonly<Record<string, unknown>>
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly file: { readonly path: string; readonly from: BaseDirectory; readonly values: Configuration } | undefined
  readonly from: BaseDirectory
}

interface Given {
  readonly name: string
  readonly texts: readonly string[]
  readonly from: BaseDirectory
}

/** Returns the value of each setting. Throws one error that lists all problems. */
export function resolveSettings<T extends SettingsTable>(table: T, sources: Sources): SettingValues<T> {
  const problems = sources.file ? unknownKeys(table, sources.file) : []
  const chosen = Object.entries(table).map(([key, setting]) => {
    try {
      const given = find(key, setting, sources)
      return [key, given ? parse(setting, given) : setting.fallback]
    } catch (error) {
      if (!(error instanceof InvalidValue)) throw error
      problems.push(error.message)
      return [key, setting.fallback]
    }
  })
  if (problems.length > 0) throw usageError(problems)
  return Object.fromEntries(chosen) as SettingValues<T>
}

function find(key: string, setting: Setting<unknown>, { flags, environment, file, from }: Sources): Given | undefined {
  const { many, withoutVariable } = setting
  const names = setting.alias === undefined ? [key] : [key, setting.alias]
  const [name = '', other] = names.filter((each) => flags[each] !== undefined)
  if (other !== undefined && flags[name] !== flags[other]) {
    throw new InvalidValue(
      `${flagOf(name)} and ${flagOf(other)} are two names for the same setting. Use only one of them.`,
    )
  }
  if (name !== '') return { name: flagOf(name), texts: textsOf(flagOf(name), flags[name]), from }
  // Compose files and scripts set a variable to the empty string to leave it unset.
  const chosen = withoutVariable ? undefined : names.find((each) => environment[variableOf(each)])
  if (chosen !== undefined) {
    const text = environment[variableOf(chosen)] ?? ''
    return {
      name: variableOf(chosen),
      texts: many === true ? text.split(',').map((part) => part.trim()) : [text],
      from,
    }
  }
  if (!file || !Object.hasOwn(file.values, key)) return undefined
  const place = `"${key}" in ${file.path}`
  const value = file.values[key]
  if (Array.isArray(value) && many === false) throw new InvalidValue(`${place} must be a single value, not a list.`)
  return { name: place, texts: textsOf(place, value), from: file.from }
}

function textsOf(name: string, value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).map((item: unknown) => {
    if (typeof item === 'string') return item
    if (typeof item === 'number' || typeof item === 'boolean') return String(item)
    throw new InvalidValue(`${name} must be a string, a number, true or false, not ${JSON.stringify(item)}.`)
  })
}

function parse<T>(setting: Setting<T>, { name, texts, from }: Given): T {
  try {
    return setting.parse(texts, from)
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error
    const shown = texts.map(shownText).join(', ')
    throw new InvalidValue(`${name} ${error.message}, not ${shown}.${didYouMean(error.suggestion)}`)
  }
}

/**
 * Hides a value that looks like a key or a token and was probably given in place of its file name. A message must not
 * contain a secret.
 */
function shownText(text: string): string {
  const isSecret = /-----BEGIN|^ey[\w-]+\.[\w-]+\.[\w-]*$/.test(text)
  return isSecret ? 'a value that looks like a secret' : JSON.stringify(text)
}

function unknownKeys(table: SettingsTable, { path, values }: NonNullable<Sources['file']>): string[] {
  const known = Object.keys(table)
  return Object.keys(values)
    .filter((key) => !Object.hasOwn(table, key))
    .map((key) => {
      const text = `Unknown setting ${JSON.stringify(key)} in ${path}.`
      return `${text}${didYouMean(nearest(key, known)) || ` Known settings: ${known.join(', ')}.`}`
    })
}

/**
 * Variables that are not settings but are read elsewhere, or that `tenure run` sets for its command, which may also be
 * tenure.
 */
const otherVariables = [
  'TENURE_TOKEN',
  'TENURE_STORE_USER',
  'TENURE_STORE_PASSWORD',
  'TENURE_STORE_PASSWORD_FILE',
  'TENURE_SENTINEL_USER',
  'TENURE_SENTINEL_PASSWORD',
  'TENURE_SENTINEL_PASSWORD_FILE',
  'TENURE_TERM',
  'TENURE_ELECTION',
  'TENURE_FENCE_FILE',
  'TENURE_SCHEDULED_AT',
  'TENURE_SHARD',
  'TENURE_GUARD',
]

/**
 * Reports variables that look like a misspelled setting. Not every unknown variable is a mistake: Kubernetes sets
 * TENURE_PORT for a service named "tenure". So only those that are one or two letters off are reported.
 */
export function mistypedVariables(
  table: SettingsTable,
  environment: Sources['environment'],
  program?: Command | null,
): string[] {
  const known = Object.entries(table).flatMap(([key, { alias }]) =>
    (alias === undefined ? [key] : [key, alias]).map(variableOf),
  )
  const others = program?.commands
    .flatMap((each) => [each, ...each.commands])
    .flatMap(({ options }) => options.map((each) => variableOf(each.attributeName())))
  const meaningful = new Set([...known, ...(others ?? []), ...otherVariables])
  return Object.keys(environment)
    .filter((name) => name.startsWith('TENURE_') && !meaningful.has(name))
    .flatMap((name) => {
      const short = name.slice('TENURE_'.length)
      const meant = nearest(
        short,
        known.map((variable) => variable.slice('TENURE_'.length)),
      )
      return meant === undefined ? [] : [`Unknown environment variable ${name}.${didYouMean(`TENURE_${meant}`)}`]
    })
}

/** Warns about flags whose URL contains a password. Every user of the machine can read it while the command runs. */
export function passwordWarnings(flags: Sources['flags']): string[] {
  return Object.entries(flags)
    .filter(([, value]) => typeof value === 'string' && hasPassword(value))
    .map(([key]) => {
      const better = `Set ${variableOf(key)} instead, or put the password into a file that TENURE_STORE_PASSWORD_FILE names.`
      return `Any user on this machine can read the password in ${flagOf(key)} from the process list. ${better}`
    })
}

/** Whether a URL contains a password. The URL of a service is exempt, because a password in it is rejected anyway. */
function hasPassword(url: string): boolean {
  if (/^https?:/i.test(url)) return false
  return /^[a-z][a-z0-9+.-]*:\/\/(?:[^@]*:[^@]+@|.*[?&]\w*password=.)/is.test(url)
}

/** Returns the settings of a command without a configuration file. */
export function settingsFrom<T extends SettingsTable>(table: T, flags: Sources['flags']): SettingValues<T> {
  return resolveSettings(table, {
    flags,
    environment: process.env,
    file: undefined,
    from: { directory: process.cwd() },
  })
}

/** Parses a positional argument. */
export function parseArgument<T>(name: string, text: string, parse: (text: string) => T): T {
  try {
    return parse(text)
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error
    throw usageError([`${name} ${error.message}, not ${shownText(text)}.${didYouMean(error.suggestion)}`])
  }
}
