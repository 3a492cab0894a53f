import { isObject } from '@tenure/internal/objects'

/** What is sent to etcd's JSON gateway and what comes back. Keys and values are base64; 64-bit numbers are texts. */
import { Nonsense } from '../http/body.ts'

/** A key with its value, at the revision that wrote it. */
export interface KeyValue {
  readonly key: string
  readonly value: string
  /** Never zero. Compared by equality only: numbers of JavaScript do not hold all of them. */
  readonly modRevision: string
}

/** A part of a transaction. */
export type Operation =
  | { readonly put: string; readonly value: string }
  | { readonly delete: string }
  /** One key, or all from it up to `rangeEnd`, which is not among them. */
  | { readonly get: string; readonly rangeEnd?: string; readonly limit?: number; readonly keysOnly?: boolean }

/** A key is at this revision, or has this value, which one that does not exist never has. */
export type Comparison =
  | { readonly key: string; readonly modRevision: string }
  | { readonly key: string; readonly value: string }

/** Carried out as one: `success` if every comparison holds, `failure` if not. */
export interface Transaction {
  readonly compare: readonly Comparison[]
  readonly success: readonly Operation[]
  readonly failure: readonly Operation[]
}

/** What a `get` found. */
export interface Range {
  readonly found: readonly KeyValue[]
  /** There are more than the limit allowed. */
  readonly more: boolean
}

/** What became of a transaction. */
export interface TransactionAnswer {
  readonly succeeded: boolean
  /** Of the store; of everything that was put, if something was. */
  readonly revision: string
  /** One for each `get` of the part that was carried out. */
  readonly ranges: readonly Range[]
}

/** Something that a watch shows. */
export interface KeyEvent {
  readonly type: 'put' | 'delete'
  /** A deleted key has no value. */
  readonly keyValue: KeyValue
}

/**
 * A transaction as it is sent. A read is never answered from a member's own copy: `serializable` is left out. So is
 * `result`, which is EQUAL then: etcd's gateway takes long to read JSON.
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

/** What etcd answered to this transaction. Fields that are zero, false or empty are left out by etcd. */
export function decodeTransaction(sent: Transaction, body: Record<string, unknown>): TransactionAnswer {
  const { succeeded = false, responses = [] } = body
  if (typeof succeeded !== 'boolean') throw new Nonsense('"succeeded" is neither true nor false')
  const operations = succeeded ? sent.success : sent.failure
  if (!Array.isArray(responses) || responses.length !== operations.length) {
    throw new Nonsense(`there are not ${operations.length} responses`)
  }
  const ranges = operations.flatMap((operation, index) => {
    const response: unknown = responses[index]
    if (!isObject(response)) throw new Nonsense('a response is missing')
    const kind = 'put' in operation ? 'put' : 'delete' in operation ? 'delete_range' : 'range'
    const given = response[`response_${kind}`]
    if (!isObject(given)) throw new Nonsense('a response belongs to something else')
    return kind === 'range' ? decodeRange(given) : []
  })
  const { revision } = isObject(body['header']) ? body['header'] : {}
  return { succeeded, revision: revisionOf(revision), ranges }
}

function decodeRange({ kvs = [], more = false }: Record<string, unknown>): Range {
  if (!Array.isArray(kvs)) throw new Nonsense('"kvs" is not a list')
  return { found: kvs.map(decodeKeyValue), more: more === true }
}

/** The events of one answer of a watch. */
export function decodeEvents({ events = [] }: Record<string, unknown>): KeyEvent[] {
  if (!Array.isArray(events)) throw new Nonsense('"events" is not a list')
  return events.map((event: unknown) => {
    const { type = 'PUT', kv } = isObject(event) ? event : {}
    if (type !== 'PUT' && type !== 'DELETE') throw new Nonsense('an event is of a kind that is not known')
    return { type: type === 'PUT' ? 'put' : 'delete', keyValue: decodeKeyValue(kv) }
  })
}

function decodeKeyValue(value: unknown): KeyValue {
  const { key, value: content = '', mod_revision: modRevision } = isObject(value) ? value : {}
  if (typeof key !== 'string' || typeof content !== 'string') throw new Nonsense('a key or its value is not a text')
  return { key: textOf(key), value: textOf(content), modRevision: revisionOf(modRevision) }
}

/** The cluster that an answer comes from. */
export function clusterOf({ header }: Record<string, unknown>): string {
  const clusterId = isObject(header) ? header['cluster_id'] : undefined
  if (typeof clusterId === 'string') return clusterId
  throw new Nonsense('its header names no cluster')
}

function revisionOf(value: unknown): string {
  if (typeof value === 'string' && /^[1-9]\d*$/.test(value)) return value
  throw new Nonsense('a revision is missing')
}

export function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

function textOf(encoded: string): string {
  return Buffer.from(encoded, 'base64').toString()
}
