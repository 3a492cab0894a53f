import { isObject } from '@tenure/internal/objects'
import { isSoundNodeId } from '../checks.ts'

/** What a caller may do. */
export interface Rights {
  /** Returns whether the caller is this node, or may act for it. */
  speaksFor(nodeId: string): boolean
  /** Returns whether the caller may take part in a group, which includes reading it. */
  mayJoin(groupId: string): boolean
  /** False if the caller may not take part in any group. */
  readonly mayJoinAny: boolean
  /** Whether the caller may define and delete groups, and read everything. */
  readonly admin: boolean
  /** Whether the caller may read all groups. */
  readonly reader: boolean
}

const fields = new Set(['node', 'nodePrefix', 'groups', 'admin', 'reader'])
const mostPatterns = 1_000
const pattern = /^[A-Za-z0-9*][A-Za-z0-9._:@*-]{0,127}$/

/**
 * Reads `{ node?, nodePrefix?, groups?, admin?, reader? }`. A right that is left out is not granted. An unknown field
 * is rejected, because it may have been meant as a restriction.
 */
export function parseRights(value: unknown, defaultNode: string): Rights {
  if (!isObject(value)) throw new TypeError('rights must be an object')
  const unknown = Object.keys(value).find((field) => !fields.has(field))
  if (unknown !== undefined) throw new TypeError(`rights have an unknown field ${JSON.stringify(unknown)}`)
  const { groups = [], admin = false, reader = false } = value
  if (typeof admin !== 'boolean' || typeof reader !== 'boolean')
    throw new TypeError('admin and reader must be booleans')
  if (!Array.isArray(groups) || groups.length > mostPatterns || !groups.every(isPattern)) {
    throw new TypeError(`groups must be a list of at most ${mostPatterns} group ids, in which * matches any characters`)
  }
  return {
    speaksFor: nodesOf(value, defaultNode),
    admin,
    reader,
    mayJoin: groupMatcher(groups),
    mayJoinAny: groups.length > 0,
  }
}

/**
 * Accepts one node, or with `nodePrefix` all nodes whose ids have that prefix: a controller acts for the candidates of
 * its cluster.
 */
function nodesOf({ node, nodePrefix }: Record<string, unknown>, defaultNode: string): Rights['speaksFor'] {
  if (nodePrefix === undefined) {
    const own = node ?? defaultNode
    if (typeof own !== 'string' || !isSoundNodeId(own)) throw new TypeError('node must be a valid node id')
    return (nodeId) => nodeId === own
  }
  if (node !== undefined) throw new TypeError('node and nodePrefix exclude each other')
  if (typeof nodePrefix !== 'string' || !isSoundNodeId(nodePrefix)) {
    throw new TypeError('nodePrefix must be the beginning of node ids')
  }
  return (nodeId) => nodeId.startsWith(nodePrefix)
}

/** Returns whether the value is a group id in which `*` may match any characters. */
export function isPattern(value: unknown): value is string {
  return typeof value === 'string' && pattern.test(value)
}

/**
 * Returns a function that tells whether a group id matches one of the patterns. `*` matches any characters, and
 * everything else matches itself. Patterns are indexed by their prefix, or by their suffix if they begin with `*`, so
 * that hundreds cost little more than one.
 */
export function groupMatcher(patterns: readonly string[]): (groupId: string) => boolean {
  const exact = new Set(patterns.filter((each) => !each.includes('*')))
  const beginnings = new Ends((text, length) => text.slice(0, length))
  const endings = new Ends((text, length) => text.slice(text.length - length))
  const others: string[][] = []
  for (const parts of patterns.filter((each) => each.includes('*')).map((each) => each.split('*'))) {
    const [first = '', last = ''] = [parts[0], parts.at(-1)]
    if (first !== '') beginnings.add(first, parts)
    else if (last !== '') endings.add(last, parts)
    else others.push(parts)
  }
  return (groupId) =>
    exact.has(groupId) ||
    beginnings.match(groupId) ||
    endings.match(groupId) ||
    others.some((parts) => matches(groupId, parts))
}

/** Patterns indexed by their prefix or suffix. */
class Ends {
  readonly #cut: (text: string, length: number) => string
  readonly #byLength = new Map<number, Map<string, string[][]>>()

  constructor(cut: (text: string, length: number) => string) {
    this.#cut = cut
  }

  add(end: string, parts: string[]): void {
    const ends = this.#byLength.get(end.length) ?? new Map<string, string[][]>()
    this.#byLength.set(end.length, ends.set(end, [...(ends.get(end) ?? []), parts]))
  }

  match(text: string): boolean {
    for (const [length, ends] of this.#byLength) {
      if (length > text.length) continue
      const patterns = ends.get(this.#cut(text, length))
      if (patterns?.some((parts) => matches(text, parts))) return true
    }
    return false
  }
}

/** Takes the first position where each part fits. No later position can be better, so there is no backtracking. */
function matches(text: string, parts: readonly string[]): boolean {
  const first = parts[0] ?? ''
  const last = parts.at(-1) ?? ''
  const end = text.length - last.length
  if (!text.startsWith(first) || !text.endsWith(last)) return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return at <= end
}
