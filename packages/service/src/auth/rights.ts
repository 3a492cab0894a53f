import { isObject } from '@tenure/internal/objects'
import { isValidNodeId } from '../common/checks.ts'
import { groupMatcher, isPattern } from '../groups/group-pattern.ts'

/** The rights of a caller. */
export interface AccessRights {
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
const maxPatterns = 1_000

/**
 * Reads `{ node?, nodePrefix?, groups?, admin?, reader? }`. A right that is left out is not granted. An unknown field
 * is rejected, because it may have been meant as a restriction.
 */
export function parseRights(value: unknown, defaultNode: string): AccessRights {
  if (!isObject(value)) throw new TypeError('rights must be an object')
  const unknown = Object.keys(value).find((field) => !fields.has(field))
  if (unknown !== undefined) throw new TypeError(`rights have an unknown field ${JSON.stringify(unknown)}`)
  const { groups = [], admin = false, reader = false } = value
  if (typeof admin !== 'boolean' || typeof reader !== 'boolean')
    throw new TypeError('admin and reader must be booleans')
  if (!Array.isArray(groups) || groups.length > maxPatterns || !groups.every(isPattern)) {
    throw new TypeError(`groups must be a list of at most ${maxPatterns} group ids, in which * matches any characters`)
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
function nodesOf({ node, nodePrefix }: Record<string, unknown>, defaultNode: string): AccessRights['speaksFor'] {
  if (nodePrefix === undefined) {
    const own = node ?? defaultNode
    if (typeof own !== 'string' || !isValidNodeId(own)) throw new TypeError('node must be a valid node id')
    return (nodeId) => nodeId === own
  }
  if (node !== undefined) throw new TypeError('set node or nodePrefix, not both')
  if (typeof nodePrefix !== 'string' || !isValidNodeId(nodePrefix)) {
    throw new TypeError('nodePrefix must be the beginning of node ids')
  }
  return (nodeId) => nodeId.startsWith(nodePrefix)
}
