import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readResource } from '../../src/multicluster/read-resource.ts'
import { leavesOf, partOf, withPart } from './crd-schema.ts'
import { whole } from './whole-resource.ts'

const metadata = { namespace: 'n', name: 'a', uid: 'u', generation: 3, resourceVersion: '9' }
const read = (parts: unknown) => readResource({ metadata, ...(parts as object) })

test('a resource is read with all that stands in it', () => {
  const named = { ...metadata, annotations: { 'tenure.dev/election': 'Größe' } }
  expect(readResource({ metadata: named, ...whole })).toEqual({ ...metadata, election: 'Größe', ...whole })
})

test('one that nobody has written to yet is empty', () => {
  const empty = { spec: { requests: {} }, status: { answers: {} } }
  expect(read({})).toEqual({ ...metadata, election: undefined, ...empty })
  expect(read({ spec: null, status: 'none' })).toMatchObject(empty)
})

test.each(['namespace', 'name', 'uid', 'resourceVersion'])('without %s it is not a resource', (field) => {
  expect(readResource({ metadata: { ...metadata, [field]: '' } })).toBeUndefined()
  expect(readResource({ metadata: { ...metadata, [field]: 7 } })).toBeUndefined()
})

describe('what is malformed hides nothing else', () => {
  const others = {
    ...whole,
    spec: { ...whole.spec, requests: { ...whole.spec.requests, other: whole.spec.requests['key'] } },
  }

  test.each([...leavesOf(whole)].map((path) => [path.join('.'), path] as const))('%s', (_name, path) => {
    const damaged = withPart(others, path, { odd: true })
    const { spec, status } = read(damaged) ?? {}
    expect(spec?.requests['other']).toEqual(whole.spec.requests['key'])
    const [first, second = ''] = path
    for (const field of Object.keys(whole.spec)) {
      if (first !== 'spec' || second !== field) expect(spec).toHaveProperty(field, partOf(others, ['spec', field]))
    }
    for (const field of Object.keys(whole.status)) {
      if (first !== 'status' || second !== field) expect(status).toHaveProperty(field, partOf(whole, ['status', field]))
    }
  })

  test('a request is there as long as it can be answered', () => {
    const requests = { none: 1, nameless: { verb: 'read' }, odd: { id: 'x', verb: 7, claim: [] } }
    const odd = { id: 'x', verb: '', renewTime: '', timeoutMs: 0, claim: { holder: '' } }
    expect(read({ spec: { requests } })?.spec.requests).toEqual({ odd })
  })

  test('an answer with half a record is none, because without it the answer would be another', () => {
    const answers = {
      damaged: { id: 'x', ok: true, record: { holder: 'a' } },
      none: { id: 'y', ok: true, record: null },
    }
    expect(read({ status: { answers } })?.status.answers).toEqual({ none: { id: 'y', ok: true } })
  })
})

test('nothing that stands there can throw', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (spec, status) => {
      expect(read({ spec, status })).toMatchObject(metadata)
    }),
  )
})
