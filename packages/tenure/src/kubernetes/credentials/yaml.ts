import { createRequire } from 'node:module'
import { join } from 'node:path'
import { messageOf } from '@tenure/internal/message'
import { TenureError } from '../../errors.ts'

/** What a document holds. Numbers and dates stay text. */
export type YamlValue = string | boolean | null | readonly YamlValue[] | YamlMap

/** A mapping. No key of it can be mistaken for a member of an object. */
export type YamlMap = ReadonlyMap<string, YamlValue>

/** The text is refused. The message names the line and never quotes the text, which may hold secrets. */
export class YamlError extends Error {
  readonly line: number

  constructor(text: string, at: number, what: string) {
    const line = text.slice(0, at).split('\n').length
    super(`line ${line}: ${what}`)
    this.line = line
  }
}

/** What is used of the package `yaml`, which is optional: its own types must not be needed to compile against this library. */
interface YamlPackage {
  parseAllDocuments(text: string, options: object): readonly YamlDocument[]
  isMap(node: unknown): node is YamlNode & { readonly items: readonly { key: YamlNode; value: YamlNode | null }[] }
  isSeq(node: unknown): node is YamlNode & { readonly items: readonly (YamlNode | null)[] }
  isScalar(node: unknown): node is YamlNode & { readonly value: unknown; readonly type?: string }
}

interface YamlDocument {
  readonly errors: readonly { readonly code: string; readonly pos: readonly [number, number] }[]
  readonly contents: YamlNode | null
  readonly range: readonly number[]
}

interface YamlNode {
  readonly anchor?: string | undefined
  readonly tag?: string | undefined
  readonly range?: readonly number[] | null
}

const longestText = 4 * 2 ** 20
const deepest = 64
/** The schema leaves scalars as they are written. Keys are compared below, in linear time. */
const options = { version: '1.2', schema: 'failsafe', stringKeys: true, uniqueKeys: false, prettyErrors: false }

/**
 * Reads YAML, JSON included, by the package `yaml`. Text that means different things to different readers, or that could
 * exhaust this process, is refused with its line: anchors, aliases, tags, merge keys, directives, several documents,
 * duplicate keys, control characters, deep nesting, more than 4 MiB.
 */
export function parseYaml(source: string): YamlValue {
  const text = source.replace(/^\ufeff/, '').replaceAll('\r\n', '\n')
  if (text.length > longestText) throw new YamlError('', 0, `it is longer than ${longestText} characters`)
  // oxlint-disable-next-line no-control-regex -- other parsers take some of them for line breaks, or end there
  const strange = text.search(/[\0-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff]/)
  if (strange !== -1) throw new YamlError(text, strange, 'it has a control character')
  const directive = text.search(/^%/m)
  if (directive !== -1) throw new YamlError(text, directive, 'it has a directive')
  const yaml = loadYaml()
  const [document, second] = documentsOf(yaml, text)
  if (second) throw new YamlError(text, second.range[0] ?? 0, 'it has more than one document')
  const [error] = document?.errors ?? []
  if (error) throw new YamlError(text, error.pos[0], reasonOf(error.code))
  return new Values(yaml, text).valueOf(document?.contents ?? null, 0)
}

/** Other versions of the package may throw, for text that is nested too deep, say. Their messages may quote the text. */
function documentsOf(yaml: YamlPackage, text: string): readonly YamlDocument[] {
  try {
    return yaml.parseAllDocuments(text, { ...options, logLevel: 'silent' })
  } catch {
    throw new YamlError('', 0, 'the package "yaml" cannot read it')
  }
}

/** The package's own messages quote the text. */
function reasonOf(code: string): string {
  return code === 'RESOURCE_EXHAUSTION' ? tooDeep : `it is not valid YAML (${code})`
}

const tooDeep = `it is nested deeper than ${deepest} levels`

class Values {
  readonly #yaml: YamlPackage
  readonly #text: string

  constructor(yaml: YamlPackage, text: string) {
    this.#yaml = yaml
    this.#text = text
  }

  valueOf(node: YamlNode | null, depth: number): YamlValue {
    if (node === null) return null
    this.#checkProperties(node)
    if (this.#yaml.isScalar(node)) return scalarOf(node)
    if (depth === deepest) this.#fail(node, tooDeep)
    if (this.#yaml.isSeq(node)) return node.items.map((item) => this.valueOf(item, depth + 1))
    if (!this.#yaml.isMap(node)) this.#fail(node, 'it has an alias')
    const map = new Map<string, YamlValue>()
    for (const { key, value } of node.items) {
      const name = this.#keyOf(key)
      if (map.has(name)) this.#fail(key, 'it has a duplicate key')
      map.set(name, this.valueOf(value, depth + 1))
    }
    return map
  }

  #keyOf(key: YamlNode): string {
    this.#checkProperties(key)
    const { value, type } = this.#yaml.isScalar(key) ? key : this.#fail(key, 'it has a key that is not text')
    if (value === '<<' && type === 'PLAIN') this.#fail(key, 'it has a merge key, "<<"')
    return typeof value === 'string' ? value : ''
  }

  #checkProperties(node: YamlNode): void {
    const { anchor, tag, range } = node
    if (tag !== undefined) this.#fail(node, 'it has a tag')
    if (anchor === undefined) return
    // The range begins behind the anchor, perhaps in another line.
    throw new YamlError(this.#text, this.#text.lastIndexOf(`&${anchor}`, range?.[0]), 'it has an anchor')
  }

  #fail({ range }: YamlNode, what: string): never {
    throw new YamlError(this.#text, range?.[0] ?? 0, what)
  }
}

/** By YAML 1.2, but without numbers: a token or a name of digits is a text. */
function scalarOf({ value, type }: { readonly value: unknown; readonly type?: string }): YamlValue {
  const text = typeof value === 'string' ? value : ''
  if (type !== 'PLAIN') return value === null ? null : text
  if (/^(?:true|True|TRUE)$/.test(text)) return true
  if (/^(?:false|False|FALSE)$/.test(text)) return false
  return /^(?:|~|null|Null|NULL)$/.test(text) ? null : text
}

/** The package beside this library, or the one of the project in the working directory. Synchronous, as its callers are. */
function loadYaml(): YamlPackage {
  let cause: unknown
  for (const place of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      return usable(createRequire(place)('yaml'))
    } catch (error) {
      cause = error
      // One that is there and broken is not replaced by another one.
      if (Reflect.get(Object(error), 'code') !== 'MODULE_NOT_FOUND') break
    }
  }
  const where = 'in the folder of your project, with --global where the command "tenure" was installed so'
  const text = `A kubeconfig is read with the package "yaml", which cannot be loaded: ${messageOf(cause).split('\n', 1)[0]}. Run: npm install yaml (${where})`
  throw new TenureError('DRIVER_MISSING', text, { cause })
}

function usable(loaded: object): YamlPackage {
  const used: readonly (keyof YamlPackage)[] = ['parseAllDocuments', 'isMap', 'isSeq', 'isScalar']
  if (used.every((name) => typeof Reflect.get(loaded, name) === 'function')) return loaded as YamlPackage
  throw new Error('it is older than version 2')
}
