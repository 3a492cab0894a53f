import { isAlias, isMap, isScalar, isSeq, parseAllDocuments, type Node } from 'yaml'
import type { YamlValue } from '../../src/kubernetes/yaml.ts'

/** What the package `yaml` makes of a text; undefined if it finds fault with it. */
export function parsedByPackage(text: string): { readonly value: YamlValue } | undefined {
  // The schema keeps all scalars as they are written: what they mean is decided below, by the rules of YAML 1.2.
  const documents = parseAllDocuments(text, { schema: 'failsafe', logLevel: 'silent' })
  if (!Array.isArray(documents) || documents.length > 1) return undefined
  const [document] = documents
  if (!document) return { value: null }
  if (document.errors.length > 0) return undefined
  return { value: valueOf(document.contents) }
}

function valueOf(node: Node | null): YamlValue {
  if (node === null) return null
  if (isAlias(node)) throw new Error('an alias')
  if (isSeq<Node | null>(node)) return node.items.map(valueOf)
  if (isMap<Node, Node | null>(node)) {
    return new Map(node.items.map(({ key, value }) => [isScalar(key) ? String(key.value) : '?', valueOf(value)]))
  }
  if (!isScalar(node)) throw new Error('no such node')
  const text = typeof node.value === 'string' ? node.value : ''
  if (node.type !== 'PLAIN') return text
  if (['true', 'True', 'TRUE'].includes(text)) return true
  if (['false', 'False', 'FALSE'].includes(text)) return false
  return ['', '~', 'null', 'Null', 'NULL'].includes(text) ? null : text
}
