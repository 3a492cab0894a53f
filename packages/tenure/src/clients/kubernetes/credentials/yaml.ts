import { createRequire } from 'node:module'
import { join } from 'node:path'
import { messageOf } from '@tenure/internal/message'
import { TenureError } from '../../../common/errors.ts'

/** A parsed value. Numbers and dates stay text. */
export type YamlValue = string | boolean | null | readonly YamlValue[] | YamlMap

/** A mapping. It is not a plain object, so no key can be mistaken for an object's own members. */
export type YamlMap = ReadonlyMap<string, YamlValue>

/** The error for rejected text. The message names the line and never quotes the text, which may contain secrets. */
export class YamlError extends Error {
  readonly line: number

  constructor(text: string, at: number, what: string) {
    const line = text.slice(0, at).split('\n').length
    super(`line ${line}: ${what}`)
    this.line = line
  }
}

/**
 * The part of the package `yaml` that is used. The package is optional, so its own types must not be needed to compile
 * against this library.
 */
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
/** This schema keeps scalars as they are written. Duplicate keys are checked below, in linear time. */
const options = { version: '1.2', schema: 'failsafe', stringKeys: true, uniqueKeys: false, prettyErrors: false }

/**
 * Parses YAML, including JSON, with the package `yaml`. Refuses text that different parsers read differently or that
 * could exhaust this process, and names the line: anchors, aliases, tags, merge keys, directives, several documents,
 * duplicate keys, control characters, deep nesting, more than 4 MiB.
 */
export function parseYaml(source: string): YamlValue {
  const text = source.replace(/^\ufeff/, '').replaceAll('\r\n', '\n')
  if (text.length > longestText) throw new YamlError('', 0, `it is longer than ${longestText} characters`)
  // oxlint-disable-next-line no-control-regex -- some parsers treat them as line breaks or as the end
  const strange = text.search(/[\0-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff]/)
  if (strange !== -1) throw new YamlError(text, strange, 'it contains a control character')
  const directive = text.search(/^%/m)
  if (directive !== -1) throw new YamlError(text, directive, 'it contains a directive')
  const yaml = loadYaml()
  const [document, second] = documentsOf(yaml, text)
  if (second) throw new YamlError(text, second.range[0] ?? 0, 'it contains more than one document')
  const values = new YamlValues(yaml, text)
  const contents = document?.contents ?? null
  const [error] = document?.errors ?? []
  // In deeply nested text, the stack that is left determines which error comes first. The depth does not depend on it.
  if (error && values.isTooDeep(contents)) throw new YamlError(text, 0, tooDeep)
  if (error) throw new YamlError(text, error.pos[0], reasonOf(error.code))
  return values.valueOf(contents, 0)
}

/** Other versions of the package may throw, for example on deeply nested text. Their messages may quote the text. */
function documentsOf(yaml: YamlPackage, text: string): readonly YamlDocument[] {
  try {
    return yaml.parseAllDocuments(text, { ...options, logLevel: 'silent' })
  } catch (error) {
    // The parser may run out of stack before it notices how deeply the text is nested.
    throw new YamlError('', 0, error instanceof RangeError ? tooDeep : 'the package "yaml" cannot read it')
  }
}

/** Does not use the package's own messages, because they quote the text. */
function reasonOf(code: string): string {
  return code === 'RESOURCE_EXHAUSTION' ? tooDeep : `it is not valid YAML (${code})`
}

const tooDeep = `it is nested deeper than ${deepest} levels`

class YamlValues {
  readonly #yaml: YamlPackage
  readonly #text: string

  constructor(yaml: YamlPackage, text: string) {
    this.#yaml = yaml
    this.#text = text
  }

  /** Checks only the first value of each level. */
  isTooDeep(node: YamlNode | null): boolean {
    let first: YamlNode | null | undefined = node
    for (let depth = 0; depth <= deepest; depth++) {
      if (this.#yaml.isSeq(first)) first = first.items[0]
      else if (this.#yaml.isMap(first)) first = first.items[0]?.value
      else return false
    }
    return true
  }

  valueOf(node: YamlNode | null, depth: number): YamlValue {
    if (node === null) return null
    this.#checkProperties(node)
    if (this.#yaml.isScalar(node)) return scalarOf(node)
    if (depth === deepest) this.#fail(node, tooDeep)
    if (this.#yaml.isSeq(node)) return node.items.map((item) => this.valueOf(item, depth + 1))
    if (!this.#yaml.isMap(node)) this.#fail(node, 'it contains an alias')
    const map = new Map<string, YamlValue>()
    for (const { key, value } of node.items) {
      const name = this.#keyOf(key)
      if (map.has(name)) this.#fail(key, 'it contains a duplicate key')
      map.set(name, this.valueOf(value, depth + 1))
    }
    return map
  }

  #keyOf(key: YamlNode): string {
    this.#checkProperties(key)
    const { value, type } = this.#yaml.isScalar(key) ? key : this.#fail(key, 'it contains a key that is not a string')
    if (value === '<<' && type === 'PLAIN') this.#fail(key, 'it contains a merge key, "<<"')
    return typeof value === 'string' ? value : ''
  }

  #checkProperties(node: YamlNode): void {
    const { anchor, tag, range } = node
    if (tag !== undefined) this.#fail(node, 'it contains a tag')
    if (anchor === undefined) return
    // The range begins after the anchor, possibly on another line.
    throw new YamlError(this.#text, this.#text.lastIndexOf(`&${anchor}`, range?.[0]), 'it contains an anchor')
  }

  #fail({ range }: YamlNode, what: string): never {
    throw new YamlError(this.#text, range?.[0] ?? 0, what)
  }
}

/** Follows YAML 1.2, but without numbers, so that a token or a name made of digits stays text. */
function scalarOf({ value, type }: { readonly value: unknown; readonly type?: string }): YamlValue {
  const text = typeof value === 'string' ? value : ''
  if (type !== 'PLAIN') return value === null ? null : text
  if (/^(?:true|True|TRUE)$/.test(text)) return true
  if (/^(?:false|False|FALSE)$/.test(text)) return false
  return /^(?:|~|null|Null|NULL)$/.test(text) ? null : text
}

/**
 * Loads the package from next to this library, or from the working directory's project. Synchronous, because its
 * callers are.
 */
function loadYaml(): YamlPackage {
  let cause: unknown
  for (const place of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      return usable(createRequire(place)('yaml'))
    } catch (error) {
      cause = error
      // An installed package that is broken must not be replaced by another one.
      if (Reflect.get(Object(error), 'code') !== 'MODULE_NOT_FOUND') break
    }
  }
  const where = 'in the directory of your project, or with --global if the "tenure" command was installed with --global'
  const text = `Reading a kubeconfig needs the package "yaml", but it cannot be loaded: ${messageOf(cause).split('\n', 1)[0]}. Run: npm install yaml (${where})`
  throw new TenureError('DRIVER_MISSING', text, { cause })
}

function usable(loaded: object): YamlPackage {
  const used: readonly (keyof YamlPackage)[] = ['parseAllDocuments', 'isMap', 'isSeq', 'isScalar']
  if (used.every((name) => typeof Reflect.get(loaded, name) === 'function')) return loaded as YamlPackage
  throw new Error('it is older than version 2')
}
