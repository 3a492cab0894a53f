/** Parsers of the settings of several commands. */
import { accessSync, constants } from 'node:fs'
import { resolve } from 'node:path'
import { isLabel, isName, labelRule, nameRule } from '@tenure/internal/names'
import { nearest } from '@tenure/internal/nearest'
import type { Metadata } from 'tenure'
import { Refusal } from './refusal.ts'
import type { From } from './settings.ts'

const largestCount = 2 ** 31 - 1

export function textOf(text: string): string {
  if (text.trim() === '' || text.length > 1_024) throw new Refusal('must be text of 1 to 1024 characters')
  return text
}

/** What is wrong with it is reported when it is opened, without what may be a password. */
export function urlOf(text: string): string {
  if (text.trim() === '') throw new Refusal('must be a URL')
  return text
}

export function pathOf(text: string, { directory }: From): string {
  return resolve(directory, textOf(text))
}

export function fileOf(text: string, from: From): string {
  const path = pathOf(text, from)
  try {
    accessSync(path, constants.R_OK)
  } catch {
    throw new Refusal('must be a file that can be read')
  }
  return path
}

export function countOf(text: string): number {
  const count = Number(text)
  if (/^\d{1,10}$/.test(text) && count >= 1 && count <= largestCount) return count
  throw new Refusal(`must be a whole number from 1 to ${largestCount}`)
}

/** Terms outgrow counts: after a restored backup many are skipped. */
export function termOf(text: string): number {
  const term = Number(text)
  if (/^\d{1,16}$/.test(text) && term >= 1 && Number.isSafeInteger(term)) return term
  throw new Refusal(`must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}`)
}

/** An election or an identity, by the rule of the library. */
export function nameOf(text: string): string {
  if (isName(text)) return text
  throw new Refusal(`must be ${nameRule}`)
}

/** A namespace of Kubernetes. */
export function namespaceOf(text: string): string {
  return labelOf(text, 'the name of a namespace')
}

/** A cluster; the name becomes a part of holders. */
export function clusterOf(text: string): string {
  return labelOf(text, 'a name such as "east"')
}

function labelOf(text: string, what: string): string {
  if (isLabel(text)) return text
  throw new Refusal(`must be ${what}: ${labelRule}`)
}

/** A host as requests name it. */
export function hostOf(text: string): string {
  if (/^(?:[a-z\d_.-]{1,253}|\[[\da-f:.]{2,45}\])$/i.test(text)) return text.toLowerCase()
  throw new Refusal('must be a host name or address without a port, an IPv6 address in brackets')
}

/** One of a few words. They are few enough to guess from a part: `run` for `run-once`, `warning` for `warn`. */
export function oneOf<T extends string>(known: readonly T[]): (text: string) => T {
  return (text) => {
    const found = known.find((each) => each === text)
    if (found !== undefined) return found
    const word = text.toLowerCase()
    const alike = known.find((each) => word.length > 1 && (each.includes(word) || word.includes(each)))
    throw new Refusal(`must be one of ${known.join(', ')}`, nearest(text, known) ?? alike)
  }
}

/** `key=value`, or a JSON object. */
export function metadataOf(text: string): Metadata {
  const rule = new Refusal('must be key=value or a JSON object, such as zone=a or {"zone":"a"}')
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
