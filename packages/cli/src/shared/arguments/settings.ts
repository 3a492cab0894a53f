import { nearest } from '@tenure/internal/nearest'
import { Option, type Command } from 'commander'
import { usageError } from './errors.ts'
import { Refusal } from './refusal.ts'
import { didYouMean } from './suggestions.ts'

/** What relative paths are relative to. */
export interface From {
  readonly directory: string
}

/**
 * Something a user can choose: by flag, environment or file, in this order. A table of them, by the names they have in
 * a file, is the one place that knows them all; `minTtl` there is `--min-ttl` and `TENURE_MIN_TTL`.
 */
export interface Setting<T> {
  /** What the help shows for the value; undefined: it is on or off. */
  readonly placeholder: string | undefined
  readonly help: string
  /** The default as the help shows it. */
  readonly shownDefault: string | undefined
  readonly fallback: T
  /** Throws a {@link Refusal}. A setting that takes many values gets all of them. */
  parse(texts: readonly string[], from: From): T
  /** Whether it can be given several times; `as-flag`: elsewhere it is one value, which may hold commas. */
  readonly many: boolean | 'as-flag'
  /** Too fine for a flag: file and environment only. */
  readonly withoutFlag: boolean
  /** `tenure run` sets its variable for the command, with another meaning: flag and file only. */
  readonly withoutVariable: boolean
  /** Another name that means the same, as flag and variable. */
  readonly alias: string | undefined
}

/** Settings by the names they have in a file. */
export type Table = Readonly<Record<string, Setting<unknown>>>

/** What was chosen. */
export type Chosen<T extends Table> = { readonly [Key in keyof T]: T[Key] extends Setting<infer Value> ? Value : never }

/** Settings as a configuration file has them. */
export type Configuration = Readonly<Record<string, unknown>>

type Look = Partial<Omit<Setting<unknown>, 'fallback' | 'parse' | 'many'>> & { readonly help: string }

const plain = {
  placeholder: undefined,
  shownDefault: undefined,
  many: false,
  withoutFlag: false,
  withoutVariable: false,
  alias: undefined,
} as const

/** A setting with one value. */
export function setting<T>(look: Look, parse: (text: string, from: From) => T): Setting<T | undefined>
export function setting<T>(look: Look, parse: (text: string, from: From) => T, fallback: T): Setting<T>
export function setting<T>(look: Look, parse: (text: string, from: From) => T, fallback?: T): Setting<T | undefined> {
  const shownDefault = fallback === undefined ? undefined : String(fallback)
  return { ...plain, shownDefault, ...look, fallback, parse: ([text = ''], from) => parse(text, from) }
}

/** A setting that can be given several times; with commas in between in the environment, as a list in a file. */
export function listSetting(look: Look, parse: (text: string) => string): Setting<readonly string[]> {
  return { ...plain, ...look, fallback: [], parse: (texts) => texts.map((text) => parse(text)), many: true }
}

/** A list with commas in between, wherever it is given. */
export function commaSetting(look: Look, parse: (text: string) => string): Setting<readonly string[]> {
  const split = (texts: readonly string[]) => texts.flatMap((text) => text.split(',')).map((part) => part.trim())
  return { ...listSetting(look, parse), parse: (texts) => split(texts).map((text) => parse(text)) }
}

/** A setting that is on or off. */
export function toggle(
  help: string,
  { fallback = false, shownDefault }: Partial<Setting<boolean>> = {},
): Setting<boolean> {
  const parse = ([text = '']: readonly string[]) => {
    if (text === 'true' || text === '1') return true
    if (text === 'false' || text === '0') return false
    throw new Refusal('must be true or false')
  }
  return { ...plain, help, shownDefault, fallback, parse }
}

/** `minTtl` as a flag: `--min-ttl`. */
export function flagOf(key: string): string {
  return `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/** `minTtl` in the environment: `TENURE_MIN_TTL`. */
export function variableOf(key: string): string {
  return `TENURE_${key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
}

/** Gives a command a flag for each setting that has one. */
export function addFlags(command: Command, table: Table): void {
  for (const [key, { placeholder, help, shownDefault, many, withoutFlag, alias }] of Object.entries(table)) {
    if (withoutFlag) continue
    const flag = flagOf(key)
    const text = shownDefault === undefined ? help : `${help} (default: ${shownDefault})`
    const option = new Option(placeholder === undefined ? flag : `${flag} <${placeholder}>`, text)
    if (many !== false)
      option.argParser((value: string, before: readonly string[] | undefined) => [...(before ?? []), value])
    command.addOption(option)
    if (alias !== undefined) command.option(`${flagOf(alias)} <${placeholder}>`, `the same as ${flag}`)
    // So that a flag can turn off what the environment or a file turned on.
    if (placeholder === undefined) command.addOption(new Option(flag.replace('--', '--no-')).hideHelp())
  }
}

/** Where values come from, the strongest first. */
export interface Sources {
  readonly flags: Readonly<Record<string, unknown>>
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly file: { readonly path: string; readonly from: From; readonly values: Configuration } | undefined
  readonly from: From
}

interface Given {
  readonly name: string
  readonly texts: readonly string[]
  readonly from: From
}

/** What was chosen for each setting. Throws with all that is wrong at once. */
export function choose<T extends Table>(table: T, sources: Sources): Chosen<T> {
  const problems = sources.file ? unknownKeys(table, sources.file) : []
  const chosen = Object.entries(table).map(([key, setting]) => {
    try {
      const given = find(key, setting, sources)
      return [key, given ? parse(setting, given) : setting.fallback]
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      problems.push(error.message)
      return [key, setting.fallback]
    }
  })
  if (problems.length > 0) throw usageError(problems)
  return Object.fromEntries(chosen) as Chosen<T>
}

function find(key: string, setting: Setting<unknown>, { flags, environment, file, from }: Sources): Given | undefined {
  const { many, withoutVariable } = setting
  const names = setting.alias === undefined ? [key] : [key, setting.alias]
  const [name = '', other] = names.filter((each) => flags[each] !== undefined)
  if (other !== undefined && flags[name] !== flags[other]) {
    throw new Refusal(`${flagOf(name)} and ${flagOf(other)} are two names of one setting: give one of them.`)
  }
  if (name !== '') return { name: flagOf(name), texts: textsOf(flagOf(name), flags[name]), from }
  // Empty is how compose files and scripts say "not set".
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
  if (Array.isArray(value) && many === false) throw new Refusal(`${place} must be one value, not a list.`)
  return { name: place, texts: textsOf(place, value), from: file.from }
}

function textsOf(name: string, value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).map((item: unknown) => {
    if (typeof item === 'string') return item
    if (typeof item === 'number' || typeof item === 'boolean') return String(item)
    throw new Refusal(`${name} must be a text, a number, true or false, not ${JSON.stringify(item)}.`)
  })
}

function parse<T>(setting: Setting<T>, { name, texts, from }: Given): T {
  try {
    return setting.parse(texts, from)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const shown = texts.map(shownText).join(', ')
    throw new Refusal(`${name} ${error.message}, not ${shown}.${didYouMean(error.meant)}`)
  }
}

/** A key or a token where the name of its file was meant: what is reported must not hold it. */
function shownText(text: string): string {
  const isSecret = /-----BEGIN|^ey[\w-]+\.[\w-]+\.[\w-]*$/.test(text)
  return isSecret ? 'what looks like a secret' : JSON.stringify(text)
}

function unknownKeys(table: Table, { path, values }: NonNullable<Sources['file']>): string[] {
  const known = Object.keys(table)
  return Object.keys(values)
    .filter((key) => !Object.hasOwn(table, key))
    .map((key) => {
      const text = `There is no setting ${JSON.stringify(key)}, which ${path} has.`
      return `${text}${didYouMean(nearest(key, known)) || ` Known are ${known.join(', ')}.`}`
    })
}

/** Variables that are read without being a setting, or that `tenure run` sets for a command, which may be tenure too. */
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
]

/**
 * Variables that look like a setting but are not one of any command. Some are not a mistake (for a service of that name,
 * Kubernetes sets TENURE_PORT), so only those are reported that are one or two letters off.
 */
export function mistypedVariables(
  table: Table,
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
      return meant === undefined ? [] : [`${name} is not known.${didYouMean(`TENURE_${meant}`)}`]
    })
}

/** Flags whose URL has a password in it: while the command runs, every user of the machine can read it. */
export function shownPasswords(flags: Sources['flags']): string[] {
  return Object.entries(flags)
    .filter(([, value]) => typeof value === 'string' && hasPassword(value))
    .map(([key]) => {
      const better = `Set ${variableOf(key)} instead, or give the password in TENURE_STORE_PASSWORD_FILE.`
      return `The password in ${flagOf(key)} can be read by every user of this machine, in the list of processes. ${better}`
    })
}

/** The address of a service has none: one that is given there is refused. */
function hasPassword(url: string): boolean {
  if (/^https?:/i.test(url)) return false
  return /^[a-z][a-z0-9+.-]*:\/\/(?:[^@]*:[^@]+@|.*[?&]\w*password=.)/is.test(url)
}

/** What was chosen for a command without a configuration file. */
export function settingsFrom<T extends Table>(table: T, flags: Sources['flags']): Chosen<T> {
  return choose(table, { flags, environment: process.env, file: undefined, from: { directory: process.cwd() } })
}

/** Reads an argument that is given without a flag. */
export function argument<T>(name: string, text: string, parse: (text: string) => T): T {
  try {
    return parse(text)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw usageError([`${name} ${error.message}, not ${shownText(text)}.${didYouMean(error.meant)}`])
  }
}
