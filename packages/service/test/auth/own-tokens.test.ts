import { createHmac, createPrivateKey, createPublicKey } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeCertificate } from '../../../tenure/test/kubernetes/certificate.ts'
import { systemClock } from '../../src/common/clock.ts'
import { startService } from '../../src/index.ts'
import { createTokenKey, signToken, type TokenKey } from '../../src/internal.ts'
import { makeAuthority } from './certificate-authority.ts'
import { ask, startTestService, type TestService } from './service.ts'
import { encode, jwkOf, nowSeconds, signed } from './tokens.ts'

const dayMs = 86_400_000
let key: TokenKey
let other: TokenKey
let service: TestService
/** How far the service's wall clock is ahead, in ms. */
let aheadMs = 0
beforeAll(async () => {
  ;[key, other] = await Promise.all([createTokenKey(), createTokenKey()])
  service = await startTestService((write) => ({
    clock: { ...systemClock, wallMs: () => Date.now() + aheadMs },
    authentication: { tokenKeyFile: write('tenure.key.pub', key.publicKey) },
  }))
})
afterAll(() => service.close())

const look = async (token: string, path = '/v1/groups/payments/leader') =>
  (await ask(service.url, token, 'GET', path)).status
const partOf = (token: string, index: number) =>
  JSON.parse(Buffer.from(token.split('.')[index] ?? '', 'base64url').toString()) as Record<string, unknown>

describe('tokens signed with its own key', () => {
  test('a service with only the public key accepts a token with the signed rights', async () => {
    const { token, id, expiresAtMs } = await signToken(key.privateKey, { node: 'm-2', groups: ['payments', 'r-*'] })
    expect(partOf(token, 1)).toMatchObject({ sub: 'm-2', jti: id, exp: expiresAtMs / 1000 })
    expect(Math.abs(expiresAtMs - Date.now() - 30 * dayMs)).toBeLessThan(60_000)
    const campaign = (group: string, node_id: string) =>
      ask(service.url, token, 'POST', `/v1/groups/${group}/campaign`, { node_id, lease_ttl_ms: 1_000 })
    expect((await campaign('payments', 'm-2')).status).toBe(200)
    expect((await campaign('r-1', 'm-2')).status).toBe(200)
    expect((await campaign('payments', 'm-3')).status).toBe(403)
    expect((await campaign('other', 'm-2')).status).toBe(403)
    expect(await look(token, '/metrics')).toBe(403)
  })

  test('a reader token sees everything, and an administrator token defines groups', async () => {
    const reader = await signToken(key.privateKey, { node: 'eye', reader: true })
    const admin = await signToken(key.privateKey, { node: 'me', admin: true })
    const define = (token: string) => ask(service.url, token, 'PUT', '/v1/groups/defined', {})
    expect(await look(reader.token, '/metrics')).toBe(200)
    expect((await define(reader.token)).status).toBe(403)
    expect((await define(admin.token)).status).toBe(201)
  })

  test('a token is valid for its signed lifetime of up to a year, and no longer', async () => {
    const { token } = await signToken(key.privateKey, { node: 'm-2', groups: ['*'], lifetimeMs: 366 * dayMs })
    aheadMs = 366 * dayMs - 60_000
    expect(await look(token)).toBe(200)
    aheadMs = 366 * dayMs + 6_000
    expect(await look(token)).toBe(401)
    aheadMs = 0
  })

  test('a token that is signed with another key, or whose header or claims are not valid, is refused', async () => {
    const { token } = await signToken(key.privateKey, { node: 'm-2', groups: ['payments'] })
    const [header, claims] = [partOf(token, 0), partOf(token, 1)]
    const foreign = createPrivateKey(other.privateKey)
    const own = createPrivateKey(key.privateKey)
    const jwk = jwkOf(createPublicKey(other.publicKey))
    const forged = [
      (await signToken(other.privateKey, { node: 'm-2', groups: ['payments'] })).token,
      signed(header, claims, foreign),
      signed({ ...header, jwk }, claims, foreign),
      signed({ alg: 'ES256' }, claims, foreign),
      signed({ ...header, kid: '../../dev/null' }, claims, own),
      signed({ ...header, kid: 'x'.repeat(4_000) }, claims, own),
      `${encode({ ...header, alg: 'none' })}.${encode(claims)}.`,
      hmacOf({ ...header, alg: 'HS256' }, claims, key.publicKey),
      // Signed with the right key, but for another issuer, for another audience, or for longer than a year.
      signed(header, { ...claims, iss: 'https://issuer.example' }, own),
      signed(header, { ...claims, aud: 'another' }, own),
      signed(header, { ...claims, exp: nowSeconds() + 400 * 86_400 }, own),
    ]
    expect(await look(token)).toBe(200)
    expect(await Promise.all(forged.map((each) => look(each)))).toEqual(forged.map(() => 401))
  })
})

function hmacOf(header: object, claims: object, secret: string): string {
  const input = `${encode(header)}.${encode(claims)}`
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
}

describe('signToken', () => {
  test.each([
    ['a node with a line break', { node: 'a\nb', groups: ['x'] }, /^node is "a\\nb"; it must be/],
    ['options that grant nothing', { node: 'a' }, /^groups must name a group unless reader or admin is true/],
    ['an invalid group pattern', { node: 'a', groups: ['a b'] }, /^groups: groups must be a list of at most/],
    ['an infinite lifetime', { node: 'a', admin: true, lifetimeMs: Infinity }, /^lifetimeMs is Infinity/],
    ['a lifetime of seconds', { node: 'a', admin: true, lifetimeMs: 5_000 }, /^lifetimeMs is 5000/],
    [
      'more groups than a token holds',
      { node: 'a', groups: manyGroups() },
      /^groups result in a token of \d+ characters/,
    ],
    ['an option that does not exist', { node: 'a', admin: true, nodes: 'b' }, /nodes/],
  ])('signToken refuses %s', async (_, options, message) => {
    const signing = signToken(key.privateKey, options)
    await expect(signing).rejects.toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(message) })
  })

  test('signToken refuses an invalid private key without quoting it', async () => {
    const { privateKey } = await createTokenKey()
    const broken = privateKey.replace(/\n[^-]{20}/, '\n')
    for (const wrong of ['', broken, key.publicKey]) {
      const error: unknown = await signToken(wrong, { node: 'a', admin: true }).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'privateKey' })
      const said = JSON.stringify([String(error), String((error as Error).cause)])
      const secret = wrong.split('\n')[1] ?? 'nothing'
      expect(said).not.toContain(secret.slice(0, 10))
    }
  })
})

function manyGroups(): string[] {
  return Array.from({ length: 500 }, (_, index) => `group-with-a-long-name-${index}`)
}

test.each([
  [
    'together with an issuer',
    { tokenKeyFile: 'x', jwt: { keysFile: 'x', issuer: 'i', audience: 'a' } },
    /cannot be combined/,
  ],
  ['in a file that does not exist', { tokenKeyFile: '/nowhere/x.pub' }, /^authentication.tokenKeyFile: ENOENT/],
])('the service refuses a token key %s', async (_, authentication, message) => {
  await expect(startService({ data: '/nowhere', authentication })).rejects.toThrow(message)
})

test('the service warns about a token key that every user can replace', async () => {
  for (const [mode, warned] of [
    [0o644, false],
    [0o646, true],
  ] as const) {
    const { log, close } = await startTestService((write) => {
      const tokenKeyFile = write('tenure.key.pub', key.publicKey)
      chmodSync(tokenKeyFile, mode)
      return { authentication: { tokenKeyFile } }
    })
    await close()
    expect(log.join('').includes('any user on this machine can add a key and authenticate with it')).toBe(warned)
  }
})

test('the service refuses a certificate as the token key and says what it needs', async () => {
  const { cert } = makeCertificate()
  const starting = startTestService((write) => ({ authentication: { tokenKeyFile: write('service.pem', cert) } }))
  const text = 'authentication.tokenKeyFile: it contains a certificate; provide only the public key.'
  await expect(starting).rejects.toThrow(text)
})

test('the service warns about rights and client CA files that every user can write', async () => {
  const { cert, key: serverKey } = makeCertificate()
  const authority = makeAuthority()
  for (const [mode, warned] of [
    [0o644, false],
    [0o666, true],
  ] as const) {
    const { log, close } = await startTestService((write) => {
      const files = {
        clientCaFile: write('clients.pem', authority.cert),
        rightsFile: write('rights.json', { certificates: [] }),
      }
      for (const file of Object.values(files)) chmodSync(file, mode)
      const tls = { certFile: write('server.pem', cert), keyFile: write('server.key', serverKey) }
      return {
        tls: { ...tls, clientCaFile: files.clientCaFile },
        authentication: { certificates: { rightsFile: files.rightsFile } },
      }
    })
    await close()
    const lines = log.join('')
    expect(lines.includes('any user on this machine can grant themselves every right')).toBe(warned)
    expect(lines.includes('any user on this machine can add a CA and authenticate with it')).toBe(warned)
  }
})

test('the service refuses a private key as the token key and says which key it needs', async () => {
  const starting = startTestService((write) => ({
    authentication: { tokenKeyFile: write('tenure.key', key.privateKey) },
  }))
  const text = 'authentication.tokenKeyFile: it contains a private key; provide only the public key.'
  await expect(starting).rejects.toThrow(text)
})
