import { ServiceError } from './errors.ts'
import type { Metadata } from './state.ts'

const longestIdBytes = 256
const longestMetadataBytes = 4096
const deepestMetadata = 8
// C0, DEL and C1 forge log lines.
// oxlint-disable-next-line no-control-regex
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/

/** Two spellings of one name must not be two nodes. */
export function isSoundNodeId(nodeId: string): boolean {
  return (
    nodeId !== '' &&
    Buffer.byteLength(nodeId) <= longestIdBytes &&
    nodeId.isWellFormed() &&
    !controlCharacter.test(nodeId) &&
    nodeId.normalize('NFC') === nodeId
  )
}

/** What a schema cannot say about a node's id. */
export function checkNodeId(nodeId: string): void {
  if (isSoundNodeId(nodeId)) return
  const text = `node_id must be text of at most ${longestIdBytes} bytes without control characters, in Unicode form NFC.`
  throw new ServiceError('INVALID_REQUEST', text)
}

export function checkMetadata(metadata: Metadata): void {
  const sound =
    isShallow(metadata, deepestMetadata) && Buffer.byteLength(JSON.stringify(metadata)) <= longestMetadataBytes
  if (sound) return
  const text = `metadata must have at most ${longestMetadataBytes} bytes of JSON and ${deepestMetadata} levels.`
  throw new ServiceError('INVALID_REQUEST', text)
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((inner) => isShallow(inner, levels - 1))
}
