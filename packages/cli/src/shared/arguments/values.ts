/** Parsers shared by the settings of several commands. */
import { accessSync, constants } from 'node:fs'
import { resolve } from 'node:path'
import { isLabel, isName, labelRule, nameRule } from '@tenure/internal/names'
import { nearest } from '@tenure/internal/nearest'
import type { Metadata } from 'tenure'
import { InvalidValue } from './invalid-value.ts'
import type { BaseDirectory } from './settings.ts'

const largestCount = 2 ** 31 - 1

export function textOf(text: string): string {
  if (text.trim() === '' || text.length > 1_024) throw new InvalidValue('must be a string of 1 to 1024 characters')
  return text
}

/** Accepts any text. Opening the store validates the URL, and its message hides a password. */
export function urlOf(text: string): string {
  if (text.trim() === '') throw new InvalidValue('must be a URL')
  return text
}

export function pathOf(text: string, { directory }: BaseDirectory): string {
  return resolve(directory, textOf(text))
}

export function fileOf(text: string, from: BaseDirectory): string {
  const path = pathOf(text, from)
  try {
    accessSync(path, constants.R_OK)
  } catch {
    throw new InvalidValue('must be a readable file')
  }
  return path
}

export function countOf(text: string): number {
  const count = Number(text)
  if (/^\d{1,10}$/.test(text) && count >= 1 && count <= largestCount) return count
  throw new InvalidValue(`must be a whole number from 1 to ${largestCount}`)
}

/** Parses a term. Terms can exceed the limit of counts, because a restore skips many of them. */
export function termOf(text: string): number {
  const term = Number(text)
  if (/^\d{1,16}$/.test(text) && term >= 1 && Number.isSafeInteger(term)) return term
  throw new InvalidValue(`must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}`)
}

/** Parses the number of a rollout. */
export function generationOf(text: string): number {
  const generation = Number(text)
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(generation)) return generation
  throw new InvalidValue(`must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`)
}

/** Parses an election or an identity by the library's rule. */
export function nameOf(text: string): string {
  if (isName(text)) return text
  throw new InvalidValue(`must be ${nameRule}`)
}

/** Parses a Kubernetes namespace. */
export function namespaceOf(text: string): string {
  return labelOf(text, 'the name of a namespace')
}

/** Parses a cluster name, which becomes a part of holders. */
export function clusterOf(text: string): string {
  return labelOf(text, 'a name such as "east"')
}

function labelOf(text: string, what: string): string {
  if (isLabel(text)) return text
  throw new InvalidValue(`must be ${what}: ${labelRule}`)
}

/** Parses a host as it appears in requests. */
export function hostOf(text: string): string {
  if (/^(?:[a-z\d_.-]{1,253}|\[[\da-f:.]{2,45}\])$/i.test(text)) return text.toLowerCase()
  throw new InvalidValue('must be a host name or an IP address without a port, with IPv6 addresses in brackets')
}

/**
 * Returns a parser for one of a few words. Because there are only a few, it suggests the word that was probably meant:
 * `run-once` for `run`, `warn` for `warning`.
 */
export function oneOf<T extends string>(known: readonly T[]): (text: string) => T {
  return (text) => {
    const found = known.find((each) => each === text)
    if (found !== undefined) return found
    const word = text.toLowerCase()
    const alike = known.find((each) => word.length > 1 && (each.includes(word) || word.includes(each)))
    throw new InvalidValue(`must be one of ${known.join(', ')}`, nearest(text, known) ?? alike)
  }
}

/** Parses `key=value` or a JSON object. */
export function metadataOf(text: string): Metadata {
  const rule = new InvalidValue('must be key=value or a JSON object, such as zone=a or {"zone":"a"}')
  if (!text.trimStart().startsWith('{')) {
    const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
    if (key === undefined || value === undefined) throw rule
    return { [key]: value }
  }
  try {
    return JSON.parse(text) as Metadata
  } catch {
    throw rule
  }
}
