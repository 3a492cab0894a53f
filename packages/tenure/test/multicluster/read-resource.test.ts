import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readResource } from '../../src/multicluster/read-resource.ts'
import { leavesOf, partOf, withPart } from './crd-schema.ts'
import { whole } from './whole-resource.ts'

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
    'a malformed %s hides no other field',
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

  test('a malformed request is kept as long as it can be answered', () => {
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
