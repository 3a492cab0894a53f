/**
 * `TxnRequest` and `TxnResponse` of etcd's rpc.proto, in the format of etcd's gRPC API. The numbers of their fields are
 * part of that API.
 */
import {
  MalformedResponse,
  type Comparison,
  type KeyRange,
  type KeyValue,
  type Operation,
  type Transaction,
  type TransactionResponse,
} from 'tenure/internal/etcd'
import { ProtobufReader, ProtobufWriter } from './protobuf.ts'

/** What a comparison is about. Its result is left out: the default is EQUAL. */
const targets = { modRevision: 2, value: 3 } as const
/** The kinds of operations. A response has the same number as its operation. */
const kinds = { range: 1, put: 2, delete: 3 } as const

/** Tags, lengths and integers of one comparison or operation take less than this. */
const overheadBytes = 64

/** Encodes a transaction. Omits `serializable`, so a member never answers a read from its own copy. */
export function encodeTxnRequest({ compare, success, failure }: Transaction): Buffer {
  const writer = new ProtobufWriter(maxBytesOf([...compare, ...success, ...failure]))
  for (const operation of failure.toReversed()) writer.message(3, () => writeOperation(writer, operation))
  for (const operation of success.toReversed()) writer.message(2, () => writeOperation(writer, operation))
  for (const comparison of compare.toReversed()) writer.message(1, () => writeComparison(writer, comparison))
  return writer.written()
}

function maxBytesOf(parts: readonly (Comparison | Operation)[]): number {
  let bytes = 0
  for (const part of parts) {
    bytes += overheadBytes
    for (const value of Object.values(part)) if (typeof value === 'string') bytes += Buffer.byteLength(value)
  }
  return bytes
}

function writeComparison(writer: ProtobufWriter, comparison: Comparison): void {
  const isValue = 'value' in comparison
  if (isValue) writer.text(7, comparison.value)
  else writer.integer(6, comparison.modRevision)
  writer.text(3, comparison.key)
  writer.integer(2, isValue ? targets.value : targets.modRevision)
}

function writeOperation(writer: ProtobufWriter, operation: Operation): void {
  writer.message(kindOf(operation), () => {
    if ('put' in operation) {
      writer.text(2, operation.value)
      writer.text(1, operation.put)
    } else if ('delete' in operation) writer.text(1, operation.delete)
    else {
      const { get, rangeEnd, limit, keysOnly } = operation
      if (keysOnly) writer.integer(8, 1)
      if (limit !== undefined) writer.integer(3, limit)
      if (rangeEnd !== undefined) writer.text(2, rangeEnd)
      writer.text(1, get)
    }
  })
}

function kindOf(operation: Operation): number {
  return 'put' in operation ? kinds.put : 'delete' in operation ? kinds.delete : kinds.range
}

/** Decodes etcd's answer to a transaction. etcd omits fields that are zero, false or empty. */
export function decodeTxnResponse(sent: Transaction, bytes: Buffer): TransactionResponse {
  let header = { clusterId: '', revision: '' }
  let succeeded = false
  const responses: ProtobufReader[] = []
  const reader = new ProtobufReader(bytes)
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) header = decodeHeader(reader.message())
    else if (field === 2) succeeded = reader.integer() === '1'
    else if (field === 3) responses.push(reader.message())
  }
  const { clusterId, revision } = header
  if (clusterId === '') throw new MalformedResponse('its header has no cluster id')
  const operations = succeeded ? sent.success : sent.failure
  if (responses.length !== operations.length) {
    throw new MalformedResponse(`it does not contain ${operations.length} responses`)
  }
  const ranges = responses.flatMap((response, index) => decodeResponse(operations[index] as Operation, response))
  return { clusterId, succeeded, revision: revisionOf(revision), ranges }
}

function decodeHeader(reader: ProtobufReader): { readonly clusterId: string; readonly revision: string } {
  let [clusterId, revision] = ['', '']
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) clusterId = reader.integer()
    else if (field === 3) revision = reader.integer()
  }
  return { clusterId, revision }
}

function decodeResponse(operation: Operation, reader: ProtobufReader): KeyRange[] {
  const kind = kindOf(operation)
  if (reader.next() !== kind) throw new MalformedResponse('a response does not match its operation')
  const response = reader.message()
  return kind === kinds.range ? [decodeRange(response)] : []
}

function decodeRange(reader: ProtobufReader): KeyRange {
  const found: KeyValue[] = []
  let more = false
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 2) found.push(decodeKeyValue(reader.message()))
    else if (field === 3) more = reader.integer() === '1'
  }
  return { found, more }
}

function decodeKeyValue(reader: ProtobufReader): KeyValue {
  let [key, value, modRevision] = ['', '', '']
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) key = reader.text()
    else if (field === 3) modRevision = reader.integer()
    else if (field === 5) value = reader.text()
  }
  return { key, value, modRevision: revisionOf(modRevision) }
}

function revisionOf(text: string): string {
  // Empty if it is missing. Zero never happens in an answer.
  if (text === '' || text === '0') throw new MalformedResponse('a revision is missing')
  return text
}
