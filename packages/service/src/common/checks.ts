import { isHarmless } from '@tenure/internal/objects'
import { ServiceError } from './errors.ts'

const longestIdBytes = 256
const longestMetadataBytes = 4096
const deepestMetadata = 8
const longestCheckpointBytes = 4096
/** Control characters and line separators can forge log lines, and invisible characters make two names look alike. */
export const invisibleCharacter = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

/** Data that a candidate provides about itself, kept as JSON text. Parsed metadata takes ten times as much memory. */
export type MetadataText = string

/** Requires one canonical spelling, so that two spellings of a name cannot count as two nodes. */
export function isValidNodeId(nodeId: string): boolean {
  return (
    nodeId !== '' &&
    Buffer.byteLength(nodeId) <= longestIdBytes &&
    nodeId.isWellFormed() &&
    !invisibleCharacter.test(nodeId) &&
    nodeId.trim() === nodeId &&
    nodeId.normalize('NFC') === nodeId
  )
}

/** Checks the rules for a node id that a JSON schema cannot express. `field` is its field in the body. */
export function checkNodeId(nodeId: string, field = 'node_id'): void {
  if (isValidNodeId(nodeId)) return
  const rule = 'without control characters, invisible characters, or leading or trailing blanks, in Unicode form NFC'
  throw new ServiceError('INVALID_REQUEST', `${field} must be text of at most ${longestIdBytes} bytes ${rule}.`)
}

/** Checks the length in bytes. A JSON schema counts characters, and one character takes up to four bytes. */
export function checkCheckpoint(checkpoint: string): void {
  if (Buffer.byteLength(checkpoint) <= longestCheckpointBytes) return
  throw new ServiceError('INVALID_REQUEST', `checkpoint must be at most ${longestCheckpointBytes} bytes in UTF-8.`)
}

/** Returns metadata as JSON text, the form in which it is stored. */
export function metadataText(metadata: Readonly<Record<string, unknown>>): MetadataText {
  const text = isHarmless(metadata, deepestMetadata) ? JSON.stringify(metadata) : undefined
  if (text !== undefined && Buffer.byteLength(text) <= longestMetadataBytes) return text
  const rule = `at most ${longestMetadataBytes} bytes of JSON and ${deepestMetadata} levels`
  throw new ServiceError('INVALID_REQUEST', `metadata must have ${rule}, and no key such as __proto__.`)
}

/** Rejects a body that names a different group than the path: it was meant for another request. */
export function checkGroupId(groupId: string, named: string | undefined): void {
  if (named === undefined || named === groupId) return
  throw new ServiceError('INVALID_REQUEST', `group_id in the body differs from the group in the path, "${groupId}".`)
}
