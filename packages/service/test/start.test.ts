import { chmodSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from '../../tenure/test/kubernetes/certificate.ts'
import { makeAuthority } from './auth/certificate-authority.ts'
import { ask, startTestService } from './auth/service.ts'
import { audience, ecKeys, issuer, jwkOf } from './auth/tokens.ts'

const { publicKey } = ecKeys()

test.each(['0.0.0.0', '::', '192.0.2.1', '10.0.0.1', '::ffff:10.0.0.1'])(
  'the service refuses to listen on %s without authentication',
  async (host) => {
    const started = startTestService(() => ({ host }))
    const rule = 'without authentication the service listens on loopback only (127.0.0.1, ::1, or localhost).'
    const refusal = { name: 'TypeError', option: 'host', rule, message: `host is "${host}"; ${rule}` }
    await expect(started).rejects.toMatchObject(refusal)
  },
)

test.each(['127.0.0.1', 'localhost', '127.0.0.2'])('the service listens on %s without authentication', async (host) => {
  const service = await startTestService(() => ({ host }))
  expect(await ask(service.url, undefined, 'GET', '/v1/groups')).toMatchObject({ status: 200 })
  await service.close()
})

test('the service listens on any address with authentication, and warns about tokens without TLS', async () => {
  const service = await startTestService((write) => ({
    host: '0.0.0.0',
    authentication: { jwt: { keysFile: write('keys.json', jwkOf(publicKey)), issuer, audience } },
  }))
  expect(await ask(service.url, undefined, 'GET', '/v1/groups')).toMatchObject({ status: 401 })
  expect(service.log.join('')).toContain('tokens are accepted without TLS')
  await service.close()
})

test.each<[string, object, RegExp]>([
  ['no method', {}, /authentication is empty/],
  ['an empty issuer', { jwt: { issuer: '' } }, /authentication\.jwt\.issuer is ""/],
  ['no audience', { jwt: { audience: undefined } }, /authentication\.jwt\.audience is undefined/],
  [
    'a clock tolerance of a minute',
    { jwt: { clockToleranceMs: 60_000 } },
    /clockToleranceMs is 60000; it must be 0 to 30000/,
  ],
  ['a maximum lifetime of zero', { jwt: { maxLifetimeMs: 0 } }, /maxLifetimeMs is 0/],
  ['an infinite maximum lifetime', { jwt: { maxLifetimeMs: Infinity } }, /maxLifetimeMs is Infinity/],
  ['a maximum lifetime that is not a number', { jwt: { maxLifetimeMs: Number.NaN } }, /maxLifetimeMs is NaN/],
  ['a missing keys file', { jwt: { keysFile: 'missing.json' } }, /authentication\.jwt\.keysFile: ENOENT/],
  ['certificates but no client CA file', { certificates: { rightsFile: 'x' } }, /needs tls\.clientCaFile/],
])('the service refuses authentication with %s', async (_what, { jwt, ...rest }: { jwt?: object }, message) => {
  const started = startTestService((write) => {
    const sound = { keysFile: write('keys.json', jwkOf(publicKey)), issuer, audience }
    return { authentication: { ...(jwt && { jwt: { ...sound, ...jwt } }), ...rest } }
  })
  await expect(started).rejects.toThrow(message)
})

test('the service refuses a client CA file without certificate authentication', async () => {
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

test.each([
  [0o644, 1],
  [0o600, 0],
  [0o640, 0],
])(
  'the service warns about a key file with mode %o each time it reads the key, if others can read it',
  async (mode, warnings) => {
    const { cert, key } = makeCertificate()
    let keyFile = ''
    const service = await startTestService((write) => {
      keyFile = write('server.key', key)
      chmodSync(keyFile, mode)
      return { tls: { certFile: write('server.pem', cert), keyFile } }
    })
    onTestFinished(() => service.close())
    const warned = () => service.log.filter((line) => line.includes("can read the service's private key"))
    expect(warned()).toHaveLength(warnings)
    await service.running.reload()
    expect(warned()).toHaveLength(2 * warnings)
  },
)

test('the service refuses a keys file with an incomplete PEM block', async () => {
  const pem = String(publicKey.export({ type: 'spki', format: 'pem' }))
  const started = startTestService((write) => {
    const keysFile = write('keys.pem', pem + pem.slice(0, 60))
    return { authentication: { jwt: { keysFile, issuer, audience } } }
  })
  await expect(started).rejects.toThrow(/keysFile: a PEM block in it is incomplete/)
})
