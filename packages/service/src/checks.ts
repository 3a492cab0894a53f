import { ServiceError } from './errors.ts'
import type { Metadata } from './state.ts'

const longestIdBytes = 256
const longestMetadataBytes = 4096
const deepestMetadata = 8
/** Control characters and line separators forge log lines; what is invisible makes two names look alike. */
export const unseenCharacter = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u
/** Names with a meaning of their own in a JavaScript that copies what it was given, if an object stands below them. */
const poison = new Set(['__proto__', 'constructor', 'prototype'])

/** Two spellings of one name must not be two nodes. */
export function isSoundNodeId(nodeId: string): boolean {
  return (
    nodeId !== '' &&
    Buffer.byteLength(nodeId) <= longestIdBytes &&
    nodeId.isWellFormed() &&
    !unseenCharacter.test(nodeId) &&
    nodeId.trim() === nodeId &&
    nodeId.normalize('NFC') === nodeId
  )
}

/** What a schema cannot say about a node's id. */
export function checkNodeId(nodeId: string): void {
  if (isSoundNodeId(nodeId)) return
  const rule = 'without control characters, invisible ones and blanks around it, in Unicode form NFC'
  throw new ServiceError('INVALID_REQUEST', `node_id must be text of at most ${longestIdBytes} bytes ${rule}.`)
}

export function checkMetadata(metadata: Metadata): void {
  const sound =
    isHarmless(metadata, deepestMetadata) && Buffer.byteLength(JSON.stringify(metadata)) <= longestMetadataBytes
  if (sound) return
  const rule = `at most ${longestMetadataBytes} bytes of JSON and ${deepestMetadata} levels`
  throw new ServiceError('INVALID_REQUEST', `metadata must have ${rule}, and no key such as __proto__.`)
}

function isHarmless(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return (
    levels > 0 &&
    Object.entries(value).every(
      ([key, inner]) => !(poison.has(key) && typeof inner === 'object') && isHarmless(inner, levels - 1),
    )
  )
}
