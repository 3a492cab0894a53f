import { describe, expect, test } from 'vitest'
import { decodeTxnResponse, encodeTxnRequest } from '../../../src/storage/etcd-grpc/grpc-messages.ts'
import { ProtobufWriter } from '../../../src/storage/etcd-grpc/protobuf.ts'
import { MalformedResponse, type Transaction } from 'tenure/internal/etcd'

const nothing: Transaction = { compare: [], success: [], failure: [] }
const hexOf = (transaction: Partial<Transaction>) => encodeTxnRequest({ ...nothing, ...transaction }).toString('hex')

/** The bytes follow the field numbers of etcd's rpc.proto. Each comment shows the message as text. */
describe('transactions for the gRPC API of etcd', () => {
  test.for<[expected: string, transaction: Partial<Transaction>]>([
    ['', {}],
    // compare { target: VALUE key: "k" value: "v" }
    ['0a0810031a016b3a0176', { compare: [{ key: 'k', value: 'v' }] }],
    // compare { target: MOD key: "k" mod_revision: 300 }
    ['0a0810021a016b30ac02', { compare: [{ key: 'k', modRevision: '300' }] }],
    // compare { target: MOD key: "k" mod_revision: 0 }
    ['0a0710021a016b3000', { compare: [{ key: 'k', modRevision: '0' }] }],
    // success { request_put { key: "k" value: "é" } }
    ['120912070a016b1202c3a9', { success: [{ put: 'k', value: 'é' }] }],
    // failure { request_delete_range { key: "k" } }
    ['1a051a030a016b', { failure: [{ delete: 'k' }] }],
    // failure { request_range { key: "a" range_end: "b" limit: 128 keys_only: true } }
    ['1a0d0a0b0a0161120162188001' + '4001', { failure: [{ get: 'a', rangeEnd: 'b', limit: 128, keysOnly: true }] }],
    // success { request_range { key: "a" } } success { request_range { key: "b" } }
    ['12050a030a016112050a030a0162', { success: [{ get: 'a' }, { get: 'b' }] }],
  ])('a transaction is encoded as %s', ([expected, transaction]) => {
    expect(hexOf(transaction)).toBe(expected)
  })

  test('a revision above 2^53 is encoded exactly', () => {
    const modRevision = '9223372036854775807'
    expect(hexOf({ compare: [{ key: 'k', modRevision }] })).toBe('0a0f10021a016b30ffffffffffffffff7f')
  })

  test('a value of a mebibyte is encoded', () => {
    const bytes = encodeTxnRequest({ ...nothing, success: [{ put: 'k', value: 'é'.repeat(2 ** 19) }] })
    expect(bytes.length).toBe(2 ** 20 + 3 + 4 + 4 + 4)
  })
})

const sent: Transaction = { compare: [], success: [{ get: 'a' }], failure: [{ put: 'a', value: 'b' }] }

interface Content {
  readonly clusterId?: string
  readonly revision?: string
  readonly succeeded?: boolean
  /** Writes the responses, from the last one to the first. */
  readonly responses?: (writer: ProtobufWriter) => void
}

const range = (write: (writer: ProtobufWriter) => void) => (writer: ProtobufWriter) =>
  writer.message(3, () => writer.message(1, () => write(writer)))
const put = (writer: ProtobufWriter) => writer.message(3, () => writer.message(2, () => undefined))

function responseOf({ clusterId, revision, succeeded = false, responses }: Content): Buffer {
  const writer = new ProtobufWriter(1_000)
  responses?.(writer)
  if (succeeded) writer.integer(2, 1)
  writer.message(1, () => {
    if (revision !== undefined) writer.integer(3, revision)
    if (clusterId !== undefined) writer.integer(1, clusterId)
  })
  return writer.written()
}

const header = { clusterId: '14841639068965178418', revision: '9' }

describe('answers of the gRPC API of etcd', () => {
  test('decodeTxnResponse keeps the exact value of integers above 2^53', () => {
    const modRevision = '9007199254740993'
    const responses = range((writer) => {
      writer.integer(4, 1)
      writer.integer(3, 1)
      writer.message(2, () => {
        writer.text(5, 'ü')
        writer.integer(3, modRevision)
        writer.text(1, 'é')
      })
    })
    const bytes = responseOf({ ...header, revision: '9223372036854775807', succeeded: true, responses })
    expect(decodeTxnResponse(sent, bytes)).toEqual({
      clusterId: header.clusterId,
      succeeded: true,
      revision: '9223372036854775807',
      ranges: [{ found: [{ key: 'é', value: 'ü', modRevision }], more: true }],
    })
  })

  test('decodeTxnResponse takes the branch that was applied', () => {
    const bytes = responseOf({ ...header, responses: put })
    expect(decodeTxnResponse(sent, bytes)).toMatchObject({ succeeded: false, revision: '9', ranges: [] })
  })

  const empty = range(() => undefined)
  test.for<[name: string, content: Content]>([
    ['without a cluster id', { revision: '9', succeeded: true, responses: empty }],
    ['without a revision', { clusterId: '1', succeeded: true, responses: empty }],
    ['without responses', { ...header, succeeded: true }],
    ['with a response of another kind', { ...header, succeeded: true, responses: put }],
    ['of the other branch', { ...header, responses: empty }],
    [
      'with a key without a revision',
      { ...header, succeeded: true, responses: range((writer) => writer.message(2, () => writer.text(1, 'a'))) },
    ],
    ['with a number as a response', { ...header, succeeded: true, responses: (writer) => writer.integer(3, 1) }],
  ])('decodeTxnResponse rejects an answer %s', ([, content]) => {
    expect(() => decodeTxnResponse(sent, responseOf(content))).toThrow(MalformedResponse)
  })

  test('decodeTxnResponse rejects an answer that is cut off anywhere', () => {
    const responses = range((writer) =>
      writer.message(2, () => {
        writer.text(5, 'value')
        writer.integer(3, 7)
        writer.text(1, 'key')
      }),
    )
    const bytes = responseOf({ ...header, succeeded: true, responses })
    expect(decodeTxnResponse(sent, bytes).ranges).toHaveLength(1)
    for (let end = 0; end < bytes.length; end++) {
      expect(() => decodeTxnResponse(sent, bytes.subarray(0, end)), `${end} bytes`).toThrow(MalformedResponse)
    }
  })

  test('decodeTxnResponse ignores fields of later versions', () => {
    const known = responseOf({ ...header, responses: put })
    const later = Buffer.from('f90100000000000000007d00000000820401618804ff01', 'hex')
    expect(decodeTxnResponse(sent, Buffer.concat([known, later]))).toMatchObject({ revision: '9' })
    expect(() => decodeTxnResponse(sent, Buffer.concat([known, Buffer.from('0b', 'hex')]))).toThrow(MalformedResponse)
  })
})
