import { describe, expect, test } from 'vitest'
import { errorOf } from '../../../src/clients/etcd/etcd-error.ts'
import { base64, decodeEvents, decodeTransaction, type Transaction } from '../../../src/clients/etcd/messages.ts'
import { MalformedResponse } from '../../../src/clients/http/body.ts'

const sent: Transaction = { compare: [], success: [{ get: 'a' }], failure: [{ put: 'a', value: 'b' }] }
const header = { cluster_id: '1', revision: '9' }

describe('answers from etcd', () => {
  test('decodeTransaction keeps the exact value of revisions above 2^53', () => {
    const modRevision = '9007199254740993'
    const kvs = [{ key: base64('é'), value: base64('ü'), mod_revision: modRevision }]
    const body = {
      header: { ...header, revision: '9223372036854775807' },
      succeeded: true,
      responses: [{ response_range: { kvs } }],
    }
    expect(decodeTransaction(sent, body)).toEqual({
      succeeded: true,
      revision: '9223372036854775807',
      ranges: [{ found: [{ key: 'é', value: 'ü', modRevision }], more: false }],
    })
  })

  // etcd omits fields that are false or empty, so a missing field must not look like an answer.
  test.for<object>([
    {},
    { header },
    { header, succeeded: true },
    { header, succeeded: 'true', responses: [{ response_range: {} }] },
    { header, succeeded: true, responses: [] },
    { header, succeeded: true, responses: [null] },
    { header, succeeded: true, responses: [{ response_put: {} }] },
    { header, responses: [{ response_range: {} }] },
    { header: { cluster_id: '1' }, succeeded: true, responses: [{ response_range: {} }] },
    { header: { ...header, revision: 9 }, succeeded: true, responses: [{ response_range: {} }] },
    { header, succeeded: true, responses: [{ response_range: { kvs: [{ key: 'YQ==' }] } }] },
    { header, succeeded: true, responses: [{ response_range: { kvs: [{ mod_revision: '1' }] } }] },
    { header, succeeded: true, responses: [{ response_range: { kvs: {} } }] },
  ])('decodeTransaction rejects %j', (body) => {
    expect(() => decodeTransaction(sent, body as Record<string, unknown>)).toThrow(MalformedResponse)
  })

  test('decodeEvents rejects events of an unknown type', () => {
    expect(() => decodeEvents({ events: [{ type: 'EXPIRE', kv: {} }] })).toThrow(MalformedResponse)
    expect(() => decodeEvents({ events: 'none' })).toThrow(MalformedResponse)
    expect(decodeEvents({})).toEqual([])
  })

  test.for<[status: number, text: string, code: string, retryable: boolean]>([
    [503, '{"code":14,"message":"etcdserver: no leader"}', 'BACKEND_UNAVAILABLE', true],
    [503, '{"error":"etcdserver: request timed out","code":14}', 'BACKEND_UNAVAILABLE', true],
    [429, '{"code":8,"message":"etcdserver: too many requests"}', 'BACKEND_UNAVAILABLE', true],
    [400, '{"code":3,"message":"etcdserver: request is too large"}', 'TOO_LARGE', false],
    [400, '{"code":3,"message":"something new"}', 'BACKEND_UNAVAILABLE', false],
    [502, '<html>', 'BACKEND_UNAVAILABLE', true],
    [404, 'Not Found', 'BACKEND_UNAVAILABLE', false],
    [200, '[]', 'BACKEND_UNAVAILABLE', false],
  ])('errorOf reports %d %s as %s', ([status, text, code, retryable]) => {
    expect(errorOf('etcd', status, text)).toMatchObject({ code, retryable })
  })
})
