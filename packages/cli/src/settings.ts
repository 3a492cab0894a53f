import { Option, type Command } from 'commander'
import { usageError } from './errors.ts'
import { Refusal } from './refusal.ts'
import { didYouMean, nearest } from './suggestions.ts'

/** Where a relative path in a text begins. */
export interface From {
  readonly directory: string
}

/**
 * Something a user can choose: by flag, environment or file, in this order. A table of them, by the names they have in
 * a file, is the one place that knows them all; `minTtl` there is `--min-ttl` and `TENURE_MIN_TTL`.
 */
export interface Setting<T> {
  /** What stands in the help for the value; undefined: it is on or off. */
  readonly placeholder: string | undefined
  readonly help: string
  /** What holds if nobody chose, as it is shown. */
  readonly shownDefault: string | undefined
  readonly fallback: T
  /** Throws a {@link Refusal}. A setting that takes many values is given all of them. */
  parse(texts: readonly string[], from: From): T
  readonly many: boolean
  /** Too fine for a flag: file and environment only. */
  readonly withoutFlag: boolean
  /** Its variable is one that a command of `tenure run` is given, and means something else: flag and file only. */
  readonly withoutVariable: boolean
}

/** Settings by the names they have in a file. */
export type Table = Readonly<Record<string, Setting<unknown>>>

/** What was chosen. */
export type Chosen<T extends Table> = { readonly [Key in keyof T]: T[Key] extends Setting<infer Value> ? Value : never }

/** A setting as a configuration file has it. */
export type Configuration = Readonly<Record<string, unknown>>

interface Look {
  readonly placeholder: string
  readonly help: string
  readonly shownDefault?: string
  readonly withoutFlag?: boolean
  readonly withoutVariable?: boolean
}

/** A setting with one value. */
export function setting<T>(look: Look, parse: (text: string, from: From) => T): Setting<T | undefined>
export function setting<T>(look: Look, parse: (text: string, from: From) => T, fallback: T): Setting<T>
export function setting<T>(look: Look, parse: (text: string, from: From) => T, fallback?: T): Setting<T | undefined> {
  return {
    placeholder: look.placeholder,
    help: look.help,
    shownDefault: look.shownDefault ?? (fallback === undefined ? undefined : String(fallback)),
    fallback,
    parse: ([text = ''], from) => parse(text, from),
    many: false,
    withoutFlag: look.withoutFlag ?? false,
    withoutVariable: look.withoutVariable ?? false,
  }
}

/** A setting that can be given several times; with commas in between in the environment, as a list in a file. */
export function listSetting(look: Look, parse: (text: string) => string): Setting<readonly string[]> {
  return {
    placeholder: look.placeholder,
    help: look.help,
    shownDefault: look.shownDefault,
    fallback: [],
    parse: (texts) => texts.map((text) => parse(text)),
    many: true,
    withoutFlag: look.withoutFlag ?? false,
    withoutVariable: look.withoutVariable ?? false,
  }
}

/** A setting that is on or off. */
export function toggle(help: string, look: { readonly fallback?: boolean; readonly shownDefault?: string } = {}) {
  const choice: Setting<boolean> = {
    placeholder: undefined,
    help,
    shownDefault: look.shownDefault,
    fallback: look.fallback ?? false,
    parse: ([text = '']) => {
      if (text === 'true' || text === '1') return true
      if (text === 'false' || text === '0') return false
      throw new Refusal('must be true or false')
    },
    many: false,
    withoutFlag: false,
    withoutVariable: false,
  }
  return choice
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
  for (const [key, { placeholder, help, shownDefault, many, withoutFlag }] of Object.entries(table)) {
    if (withoutFlag) continue
    const flag = flagOf(key)
    const text = shownDefault === undefined ? help : `${help} (default: ${shownDefault})`
    const option = new Option(placeholder === undefined ? flag : `${flag} <${placeholder}>`, text)
    if (many) option.argParser((value: string, before: readonly string[] | undefined) => [...(before ?? []), value])
    command.addOption(option)
    // So that a flag can also take back what the environment or a file turned on.
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
  const flag = flags[key]
  if (flag !== undefined) return { name: flagOf(key), texts: textsOf(flagOf(key), flag), from }
  const variable = withoutVariable ? undefined : environment[variableOf(key)]
  // Empty is how compose files and scripts say "not set".
  if (variable !== undefined && variable !== '') {
    return { name: variableOf(key), texts: many ? variable.split(',').map((text) => text.trim()) : [variable], from }
  }
  if (!file || !Object.hasOwn(file.values, key)) return undefined
  const name = `"${key}" in ${file.path}`
  const value = file.values[key]
  if (Array.isArray(value) && !many) throw new Refusal(`${name} must be one value, not a list.`)
  return { name, texts: textsOf(name, value), from: file.from }
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
    const shown = texts.map((text) => JSON.stringify(text)).join(', ')
    throw new Refusal(`${name} ${error.message}, not ${shown}.${didYouMean(error.meant)}`)
  }
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

/**
 * Variables that look like a setting and are none, nor one of another command. They are no mistake for certain
 * (Kubernetes sets TENURE_PORT for a service of that name, for one), so only those are told that are one or two letters
 * off.
 */
export function mistypedVariables(
  table: Table,
  environment: Sources['environment'],
  program?: Command | null,
): string[] {
  const known = Object.keys(table).map((key) => variableOf(key))
  const others = program?.commands.flatMap(({ options }) => options.map((each) => variableOf(each.attributeName())))
  return Object.keys(environment)
    .filter((name) => name.startsWith('TENURE_') && !known.includes(name) && !others?.includes(name))
    .flatMap((name) => {
      const short = name.slice('TENURE_'.length)
      const meant = nearest(
        short,
        known.map((variable) => variable.slice('TENURE_'.length)),
      )
      return meant === undefined ? [] : [`${name} is not known.${didYouMean(`TENURE_${meant}`)}`]
    })
}

/** What was chosen for a command that has no file. */
export function settingsFrom<T extends Table>(table: T, flags: Sources['flags']): Chosen<T> {
  return choose(table, { flags, environment: process.env, file: undefined, from: { directory: process.cwd() } })
}

/** Reads what stands on the command line without a flag. */
export function argument<T>(name: string, text: string, parse: (text: string) => T): T {
  try {
    return parse(text)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw usageError([`${name} ${error.message}, not ${JSON.stringify(text)}.${didYouMean(error.meant)}`])
  }
}
