import { isObject } from '@tenure/internal/objects'

/** The messages of etcd's JSON gateway. Keys and values are base64, and 64-bit numbers are strings. */
import { MalformedResponse } from '../http/body.ts'

/** A key with its value, at the revision that wrote it. */
export interface KeyValue {
  readonly key: string
  readonly value: string
  /**
   * Never zero. It stays text and is compared only by equality, because a JavaScript number cannot hold every value.
   */
  readonly modRevision: string
}

/** A part of a transaction. */
export type Operation =
  | { readonly put: string; readonly value: string }
  | { readonly delete: string }
  /** One key, or all keys from it up to but excluding `rangeEnd`. */
  | { readonly get: string; readonly rangeEnd?: string; readonly limit?: number; readonly keysOnly?: boolean }

/** True if a key has this revision, or this value. A key that does not exist has no value. */
export type Comparison =
  | { readonly key: string; readonly modRevision: string }
  | { readonly key: string; readonly value: string }

/** Applied atomically: `success` if every comparison holds, otherwise `failure`. */
export interface Transaction {
  readonly compare: readonly Comparison[]
  readonly success: readonly Operation[]
  readonly failure: readonly Operation[]
}

/** The result of a `get`. */
export interface KeyRange {
  readonly found: readonly KeyValue[]
  /** True if there are more keys than the limit. */
  readonly more: boolean
}

/** The outcome of a transaction. */
export interface TransactionAnswer {
  readonly succeeded: boolean
  /** Revision of the store. If the transaction wrote something, the revision of that write. */
  readonly revision: string
  /** One for each `get` of the branch that was applied. */
  readonly ranges: readonly KeyRange[]
}

/** The outcome of a transaction, and the id of the cluster that applied it. */
export interface TransactionResponse extends TransactionAnswer {
  readonly clusterId: string
}

/** One change that a watch reports. */
export interface KeyEvent {
  readonly type: 'put' | 'delete'
  /** A deleted key has no value. */
  readonly keyValue: KeyValue
}

/**
 * Encodes a transaction for the gateway. Omits `serializable`, so a member never answers a read from its own copy.
 * Omits `result`, which defaults to EQUAL, because etcd's gateway is slow to parse JSON.
 */
export function encodeTransaction({ compare, success, failure }: Transaction): unknown {
  return {
    compare: compare.map((one) =>
      'value' in one
        ? { key: base64(one.key), target: 'VALUE', value: base64(one.value) }
        : { key: base64(one.key), target: 'MOD', mod_revision: one.modRevision },
    ),
    success: success.map(encodeOperation),
    failure: failure.map(encodeOperation),
  }
}

function encodeOperation(operation: Operation): unknown {
  if ('put' in operation) return { request_put: { key: base64(operation.put), value: base64(operation.value) } }
  if ('delete' in operation) return { request_delete_range: { key: base64(operation.delete) } }
  const { get, rangeEnd, limit, keysOnly } = operation
  const range = { key: base64(get), range_end: rangeEnd && base64(rangeEnd), limit, keys_only: keysOnly }
  return { request_range: range }
}

/** Decodes etcd's answer to a transaction. etcd omits fields that are zero, false or empty. */
export function decodeTransaction(sent: Transaction, body: Record<string, unknown>): TransactionAnswer {
  const { succeeded = false, responses = [] } = body
  if (typeof succeeded !== 'boolean') throw new MalformedResponse('"succeeded" is not a boolean')
  const operations = succeeded ? sent.success : sent.failure
  if (!Array.isArray(responses) || responses.length !== operations.length) {
    throw new MalformedResponse(`it does not contain ${operations.length} responses`)
  }
  const ranges = operations.flatMap((operation, index) => {
    const response: unknown = responses[index]
    if (!isObject(response)) throw new MalformedResponse('a response is missing')
    const kind = 'put' in operation ? 'put' : 'delete' in operation ? 'delete_range' : 'range'
    const given = response[`response_${kind}`]
    if (!isObject(given)) throw new MalformedResponse('a response does not match its operation')
    return kind === 'range' ? decodeRange(given) : []
  })
  const { revision } = isObject(body['header']) ? body['header'] : {}
  return { succeeded, revision: revisionOf(revision), ranges }
}

function decodeRange({ kvs = [], more = false }: Record<string, unknown>): KeyRange {
  if (!Array.isArray(kvs)) throw new MalformedResponse('"kvs" is not an array')
  return { found: kvs.map(decodeKeyValue), more: more === true }
}

/** Decodes the events in one response of a watch. */
export function decodeEvents({ events = [] }: Record<string, unknown>): KeyEvent[] {
  if (!Array.isArray(events)) throw new MalformedResponse('"events" is not an array')
  return events.map((event: unknown) => {
    const { type = 'PUT', kv } = isObject(event) ? event : {}
    if (type !== 'PUT' && type !== 'DELETE') throw new MalformedResponse('an event has an unknown type')
    return { type: type === 'PUT' ? 'put' : 'delete', keyValue: decodeKeyValue(kv) }
  })
}

function decodeKeyValue(value: unknown): KeyValue {
  const { key, value: content = '', mod_revision: modRevision } = isObject(value) ? value : {}
  if (typeof key !== 'string' || typeof content !== 'string')
    throw new MalformedResponse('a key or its value is not a string')
  return { key: textOf(key), value: textOf(content), modRevision: revisionOf(modRevision) }
}

/** The id of the cluster that an answer comes from. */
export function clusterOf({ header }: Record<string, unknown>): string {
  const clusterId = isObject(header) ? header['cluster_id'] : undefined
  if (typeof clusterId === 'string') return clusterId
  throw new MalformedResponse('its header has no "cluster_id"')
}

function revisionOf(value: unknown): string {
  if (typeof value === 'string' && /^[1-9]\d*$/.test(value)) return value
  throw new MalformedResponse('a revision is missing')
}

export function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

function textOf(encoded: string): string {
  return Buffer.from(encoded, 'base64').toString()
}
