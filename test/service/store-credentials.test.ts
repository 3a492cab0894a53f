import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { dns, makeAuthority } from '../../packages/service/test/auth/certificate-authority.ts'
import { startTestService, type TestService } from '../../packages/service/test/auth/service.ts'
import {
  audience,
  claimsOf,
  ecKeys,
  issuer,
  jwkOf,
  nowSeconds,
  signed,
} from '../../packages/service/test/auth/tokens.ts'
import type { AcquireClaim, CallOptions } from '../../packages/tenure/src/engine/lease-store.ts'
import { serviceStore, type ServiceStoreOptions } from '../../packages/tenure/src/stores/service/index.ts'
import { makeCertificate } from '../../packages/tenure/test/kubernetes/certificate.ts'

const server = makeCertificate()
const authority = makeAuthority()
const keys = ecKeys()
const call: CallOptions = { signal: new AbortController().signal, timeoutMs: 10_000 }

let service: TestService | undefined
beforeAll(async () => {
  service = await startTestService((write) => ({
    tls: {
      certFile: write('server.pem', server.cert),
      keyFile: write('server.key', server.key),
      clientCaFile: write('clients.pem', authority.cert),
    },
    authentication: {
      certificates: {
        rightsFile: write('rights.json', {
          certificates: [{ san: 'DNS:node-1.example', node: 'node-1', groups: ['payments-*'] }],
        }),
      },
      jwt: { keysFile: write('keys.json', jwkOf(keys.publicKey)), issuer, audience },
    },
  }))
})
afterAll(() => service?.close())

const tokenFor = (node: string, more = {}) =>
  signed({ alg: 'ES256', typ: 'JWT' }, claimsOf(node, more), keys.privateKey)

function open(options: Partial<ServiceStoreOptions>) {
  const store = serviceStore({ url: service?.url ?? '', ca: server.cert, ...options })
  onTestFinished(() => store.close?.())
  return store
}

function claimOf(holder: string, election = `payments-${randomUUID()}`): AcquireClaim {
  return { election, holder, attempt: randomUUID(), leaseDurationMs: 5_000, afterTerm: 0, metadata: {} }
}

test('a token lets its node campaign, watch, and release', async () => {
  const store = open({ token: tokenFor('node-1') })
  const claim = claimOf('node-1')
  const outcome = await store.acquire(claim, call)
  expect(outcome).toMatchObject({ ok: true, record: { holder: 'node-1', term: 1 } })
  const watch = store.watch?.(claim.election, call)[Symbol.asyncIterator]()
  expect(await watch?.next()).toMatchObject({ value: { holder: 'node-1', released: false } })
  expect(outcome.record && (await store.release({ ...claim, ...outcome.record }, call))).toMatchObject({ ok: true })
  expect(await watch?.next()).toMatchObject({ value: { holder: 'node-1', released: true } })
  await watch?.return?.()
})

test('a certificate lets its node campaign', async () => {
  const store = open(authority.issue({ names: [dns('node-1.example')] }))
  expect(await store.acquire(claimOf('node-1'), call)).toMatchObject({ ok: true, record: { holder: 'node-1' } })
})

test.for([
  ['another node', () => ({ token: tokenFor('node-1') }), claimOf('node-2'), /denied the request \(403\)/],
  ['another group', () => ({ token: tokenFor('node-1') }), claimOf('node-1', 'billing'), /denied the request \(403\)/],
  ['nobody', () => ({}), claimOf('node-1'), /could not authenticate the caller \(401\)/],
  [
    'a forged token',
    () => ({ token: `${tokenFor('node-1')}x` }),
    claimOf('node-1'),
    /could not authenticate the caller \(401\)/,
  ],
  ['an unknown certificate', () => authority.issue({ names: [dns('no.example')] }), claimOf('node-1'), /\(40[13]\)/],
] as const)('the service refuses %s, and the error contains no secret', async ([, options, claim, message]) => {
  const given: Partial<ServiceStoreOptions> = options()
  const store = open(given)
  const asks = [
    () => store.acquire(claim, call),
    async () => store.watch?.('billing', call)[Symbol.asyncIterator]().next(),
  ]
  for (const ask of asks) {
    const error = await ask().then(
      () => expect.unreachable(),
      (reason: unknown) => reason as Error,
    )
    expect(error).toMatchObject({ code: 'UNAUTHORIZED', retryable: false })
    if (typeof given.token === 'string') expect(`${error.stack}`).not.toContain(given.token.slice(-20))
  }
  await expect(store.acquire(claim, call)).rejects.toThrow(message)
})

test('the service refuses an expired token and accepts its replacement', async () => {
  const expired = { iat: nowSeconds() - 1_200, exp: nowSeconds() - 600 }
  const tokens = [tokenFor('node-1', expired), tokenFor('node-1')]
  const store = open({ token: async () => tokens.shift() ?? '' })
  await expect(store.acquire(claimOf('node-1'), call)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  expect(await store.acquire(claimOf('node-1'), call)).toMatchObject({ ok: true })
})

test('a client sends nothing to a service whose certificate it does not trust', async () => {
  const store = open({ ca: makeCertificate().cert, token: tokenFor('node-1') })
  await expect(store.acquire(claimOf('node-1'), call)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
})
