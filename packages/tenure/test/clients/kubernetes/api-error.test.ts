import { describe, expect, test } from 'vitest'
import { TenureError } from '../../../src/index.ts'
import { ApiError, isApiError, reasonOf } from '../../../src/clients/kubernetes/api-error.ts'

const status = (code: number, message: string, details = {}) => ({
  kind: 'Status',
  apiVersion: 'v1',
  code,
  message,
  reason: 'Some',
  details,
})

describe('messages of ApiError', () => {
  const forbidden = 'leases "x" is forbidden: User "y" cannot get resource "leases" in the namespace "default"'
  const bind = 'Bind the Role from deploy/kubernetes to the user of the program.'
  const anonymous = forbidden.replace('"y"', '"system:anonymous"')
  const deleted = 'leases "x" is forbidden: unable to create new content in namespace y because it is being terminated'
  const quota = 'leases "x" is forbidden: exceeded quota: few, requested: count/leases=1, used: 1, limited: 1'
  const terminating = { causes: [{ reason: 'NamespaceTerminating', message: 'namespace y is being terminated' }] }
  test.each([
    [
      401,
      status(401, 'Unauthorized'),
      'the API server could not authenticate the caller (401). Check the token or the client certificate.',
    ],
    [403, status(403, forbidden), `the API server denied the request (403). ${forbidden}. ${bind}`],
    [
      403,
      status(403, anonymous),
      `the API server denied the request (403). ${anonymous}. No credentials were accepted: check the token or the client certificate.`,
    ],
    [
      403,
      status(403, deleted, terminating),
      `the API server denied the request (403). ${deleted}. No permission is missing: the namespace is being deleted. Recreate it once it is gone, or use another one.`,
    ],
    [
      403,
      status(403, quota),
      `the API server denied the request (403). ${quota}. No permission is missing: an admission rule (a quota, a policy or a webhook) denied it. Check that rule.`,
    ],
    [403, undefined, `the API server denied the request (403). ${bind}`],
    [422, status(422, 'Lease "x" is invalid'), 'the API server answered 422, Lease "x" is invalid'],
    [502, undefined, 'the answer (502) does not come from a Kubernetes API server.'],
    [302, undefined, 'the answer (302) does not come from a Kubernetes API server.'],
    [200, undefined, 'the answer (200) is not an object of the Kubernetes API.'],
    [200, { kind: 'Pod', message: 'not a Status' }, 'the answer (200) is not an object of the Kubernetes API.'],
  ])('ApiError explains the answer %i %j', (code, body, text) => {
    expect(new ApiError('Cannot get it', { status: code, body }).message).toBe(`Cannot get it: ${text}`)
  })
})

test('reasonOf reads a reason only from a Status', () => {
  expect(reasonOf({ status: 404, body: status(404, 'gone') })).toBe('Some')
  for (const body of [undefined, null, 'NotFound', [], { reason: 'NotFound' }, { kind: 'Status', reason: 404 }]) {
    expect(reasonOf({ status: 404, body })).toBeUndefined()
  }
})

test('isApiError recognizes the error of another copy of the library, and nothing else', async () => {
  // The query makes a second copy of the module.
  const copy = '../../../src/clients/kubernetes/api-error.ts?copy'
  const other = (await import(/* @vite-ignore */ copy)) as { ApiError: typeof ApiError }
  const error = new other.ApiError('A watch could not be opened', { status: 410, body: undefined })
  expect(error).not.toBeInstanceOf(ApiError)
  expect(isApiError(error) && error.status).toBe(410)
  expect(isApiError(new TenureError('TIMEOUT', 'Late.'))).toBe(false)
  expect(isApiError(Object.assign(new Error('gone'), { status: 410 }))).toBe(false)
})
