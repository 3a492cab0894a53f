import { expect, test } from 'vitest'
import { makeCertificate } from '../../tenure/test/kubernetes/certificate.ts'
import { isLoopback } from '../src/auth/loopback.ts'
import { Seal } from '../src/auth/seal.ts'
import { parseStrictJson } from '../src/auth/strict-json.ts'
import { makeAuthority } from './auth-certificates.ts'
import { ask, startTestService } from './auth-service.ts'
import { audience, ecKeys, issuer, jwkOf } from './auth-tokens.ts'

const { publicKey } = ecKeys()

test.each(['0.0.0.0', '::', '192.0.2.1', '10.0.0.1', '::ffff:10.0.0.1'])(
  'without authentication the service does not listen on %s',
  async (host) => {
    const started = startTestService(() => ({ host }))
    await expect(started).rejects.toThrow(
      new TypeError(
        `host is "${host}"; without authentication the service listens on loopback only (127.0.0.1, ::1 or localhost).`,
      ),
    )
  },
)

test.each(['127.0.0.1', 'localhost', '127.0.0.2'])('without authentication the service listens on %s', async (host) => {
  const service = await startTestService(() => ({ host }))
  expect(await ask(service.url, undefined, 'GET', '/v1/groups')).toMatchObject({ status: 200 })
  await service.close()
})

test('with authentication the service listens everywhere, and warns of tokens without TLS', async () => {
  const service = await startTestService((write) => ({
    host: '0.0.0.0',
    authentication: { jwt: { keysFile: write('keys.json', jwkOf(publicKey)), issuer, audience } },
  }))
  expect(await ask(service.url, undefined, 'GET', '/v1/groups')).toMatchObject({ status: 401 })
  expect(service.log.join('')).toContain('tokens are taken without TLS')
  await service.close()
})

test('addresses of this machine alone are told from others', () => {
  for (const address of ['127.0.0.1', '127.255.255.254', '::1', '0:0:0:0:0:0:0:1'])
    expect(isLoopback(address)).toBe(true)
  for (const address of ['128.0.0.1', '0.0.0.0', '::', '::2', 'localhost', '127.1', ''])
    expect(isLoopback(address)).toBe(false)
})

test.each<[string, object, RegExp]>([
  ['nothing to go by', {}, /authentication is empty/],
  ['no issuer', { jwt: { issuer: '' } }, /authentication\.jwt\.issuer is ""/],
  ['no audience', { jwt: { audience: undefined } }, /authentication\.jwt\.audience is undefined/],
  [
    'a tolerance of a minute',
    { jwt: { clockToleranceMs: 60_000 } },
    /clockToleranceMs is 60000; it must be 0 to 30000/,
  ],
  ['no life', { jwt: { maxLifetimeMs: 0 } }, /maxLifetimeMs is 0/],
  ['a life without end', { jwt: { maxLifetimeMs: Infinity } }, /maxLifetimeMs is Infinity/],
  ['a life that is no number', { jwt: { maxLifetimeMs: Number.NaN } }, /maxLifetimeMs is NaN/],
  ['a file that is not there', { jwt: { keysFile: 'missing.json' } }, /authentication\.jwt\.keysFile: ENOENT/],
  ['certificates without authorities', { certificates: { rightsFile: 'x' } }, /needs tls\.clientCaFile/],
])('authentication with %s is refused', async (_what, { jwt, ...rest }: { jwt?: object }, message) => {
  const started = startTestService((write) => {
    const sound = { keysFile: write('keys.json', jwkOf(publicKey)), issuer, audience }
    return { authentication: { ...(jwt && { jwt: { ...sound, ...jwt } }), ...rest } }
  })
  await expect(started).rejects.toThrow(message)
})

test('authorities of certificates that mean nothing are refused', async () => {
  const { cert, key } = makeCertificate()
  const started = startTestService((write) => ({
    tls: {
      certFile: write('server.pem', cert),
      keyFile: write('server.key', key),
      clientCaFile: write('clients.pem', makeAuthority().cert),
    },
  }))
  await expect(started).rejects.toThrow(/tls\.clientCaFile needs authentication\.certificates/)
})

test('JSON is taken with each key once per object', () => {
  for (const text of [
    '{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}',
    '["a","a"]',
    '{"a":"a","b":"\\"a\\":"}',
    '"a"',
    '{"a":"\\\\","b":"\\\\"}',
    '{"":1,"a":[],"b":{}}',
  ]) {
    expect(parseStrictJson(text)).toEqual(JSON.parse(text))
  }
  for (const text of [
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":1}',
    '[{"b":{"a":1 , "a" :2}}]',
    '{"a":{"x":1},"b":[1],"a":0}',
    '{"":1,"":1}',
    '{"__proto__":1,"__proto__":1}',
    '{',
    '',
  ]) {
    expect(() => parseStrictJson(text)).toThrow(SyntaxError)
  }
})

test('a seal is opened by the one that closed it, whole', () => {
  const seal = new Seal()
  const closed = seal.close('billing-1')
  expect(seal.open(closed)).toBe('billing-1')
  expect(seal.open('billing-1')).toBe('billing-1')
  expect(closed).toHaveLength(seal.close('x'.repeat(128)).length)
  expect(new Seal().open(closed)).toBeUndefined()
  expect(seal.open(closed.slice(0, -4))).toBeUndefined()
  expect(seal.open('~')).toBeUndefined()
})
