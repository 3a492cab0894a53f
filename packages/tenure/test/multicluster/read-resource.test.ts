import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readResource, versionIn } from '../../src/multicluster/protocol/resource-codec.ts'
import { leavesOf, partOf, withPart } from './crd-schema.ts'
import { whole } from './full-resource.ts'

const metadata = { namespace: 'n', name: 'a', uid: 'u', generation: 3, resourceVersion: '9' }
const read = (parts: unknown) => readResource({ metadata, ...(parts as object) })

test('readResource returns all fields of a resource', () => {
  const named = { ...metadata, annotations: { 'tenure.dev/election': 'Größe' } }
  expect(readResource({ metadata: named, ...whole })).toEqual({ ...metadata, election: 'Größe', ...whole })
})

test('readResource returns an empty spec and status for a resource without them', () => {
  const empty = { spec: { requests: {} }, status: { answers: {} } }
  expect(read({})).toEqual({ ...metadata, election: undefined, ...empty })
  expect(read({ spec: null, status: 'none' })).toMatchObject(empty)
})

test.each(['namespace', 'name', 'uid', 'resourceVersion'])('readResource returns undefined without %s', (field) => {
  expect(readResource({ metadata: { ...metadata, [field]: '' } })).toBeUndefined()
  expect(readResource({ metadata: { ...metadata, [field]: 7 } })).toBeUndefined()
})

describe('malformed fields', () => {
  const others = {
    ...whole,
    spec: { ...whole.spec, requests: { ...whole.spec.requests, other: whole.spec.requests['key'] } },
  }

  test.each([...leavesOf(whole)].map((path) => [path.join('.'), path] as const))(
    'a malformed %s does not affect any other field',
    (_name, path) => {
      const damaged = withPart(others, path, { odd: true })
      const { spec, status } = read(damaged) ?? {}
      expect(spec?.requests['other']).toEqual(whole.spec.requests['key'])
      const [first, second = ''] = path
      for (const field of Object.keys(whole.spec)) {
        if (first !== 'spec' || second !== field) expect(spec).toHaveProperty(field, partOf(others, ['spec', field]))
      }
      for (const field of Object.keys(whole.status)) {
        if (first !== 'status' || second !== field)
          expect(status).toHaveProperty(field, partOf(whole, ['status', field]))
      }
    },
  )

  test('a malformed request is kept if it has an id, so that it can be answered', () => {
    const requests = { none: 1, nameless: { verb: 'read' }, odd: { id: 'x', verb: 7, claim: [] } }
    const odd = { id: 'x', verb: '', renewTime: '', timeoutMs: 0, claim: { holder: '' } }
    expect(read({ spec: { requests } })?.spec.requests).toEqual({ odd })
  })

  test('an answer with an incomplete record is dropped, because without the record it would mean something else', () => {
    const answers = {
      damaged: { id: 'x', ok: true, record: { holder: 'a' } },
      none: { id: 'y', ok: true, record: null },
    }
    expect(read({ status: { answers } })?.status.answers).toEqual({ none: { id: 'y', ok: true } })
  })
})

test('readResource never throws, whatever the resource contains', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (spec, status) => {
      expect(read({ spec, status })).toMatchObject(metadata)
    }),
  )
})

/** An event as the API server writes it: with the metadata first, and all keys in the order of the alphabet. */
function eventOf(metadata: object, spec: object = {}): string {
  const object = { apiVersion: 'tenure.dev/v1alpha1', kind: 'MultiClusterLease', metadata, spec }
  return JSON.stringify({ type: 'MODIFIED', object })
}

const created = { creationTimestamp: '2026-01-01T00:00:00Z' }
const named = { generation: 7, name: 'report', namespace: 'jobs', resourceVersion: '12', uid: 'u' }

test('the version of an event is found without parsing it', () => {
  expect(versionIn(eventOf({ ...created, ...named }))).toEqual(named)
})

test.each([
  ['another field in its metadata', eventOf({ annotations: { resourceVersion: '12' }, ...created, ...named })],
  ['managed fields', eventOf(Object.assign({}, created, { generation: 7, managedFields: [{}] }, named))],
  ['an escaped name', eventOf({ ...created, ...named, name: 'a"' })],
  ['another order', eventOf({ ...named, ...created })],
  ['only a request that looks like metadata', eventOf({}, { requests: { metadata: { ...created, ...named } } })],
  ['no object', JSON.stringify({ type: 'BOOKMARK' })],
])('the version of an event with %s is left to the parser', (_, event) => {
  expect(versionIn(event)).toBeUndefined()
})

test('the version of a deletion is left to the parser', () => {
  expect(versionIn(eventOf({ ...created, ...named }).replace('MODIFIED', 'DELETED'))).toBeUndefined()
})
