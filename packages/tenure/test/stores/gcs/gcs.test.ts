import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { metadataFetch } from '../../../src/stores/gcs/fetch.ts'
import { findingsOfBucket } from '../../../src/stores/gcs/diagnostics.ts'
import { gcsStore } from '../../../src/stores/gcs/index.ts'
import { openStore } from '../../../src/stores/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

const { signal } = new AbortController()

/** A metadata server and a storage service in one. Records the tokens that it issued and received. */
async function startGoogle() {
  const tokens: string[] = []
  const shown: (string | undefined)[] = []
  const google = { tokens, shown, host: '', status: 404, tokenStatus: 200 }
  const server = createServer(({ url = '', headers }, reply) => {
    if (!url.startsWith('/computeMetadata/')) {
      shown.push(headers.authorization)
      return void reply.writeHead(google.status).end('{}')
    }
    const isAllowed = headers['metadata-flavor'] === 'Google' && url.endsWith('/service-accounts/default/token')
    tokens.push(`token-${tokens.length + 1}`)
    const token = { access_token: tokens.at(-1), expires_in: 3_599, token_type: 'Bearer' }
    reply.writeHead(isAllowed ? google.tokenStatus : 403).end(JSON.stringify(token))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  google.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return google
}

async function scene() {
  const google = await startGoogle()
  const clock = fakeClock()
  const fetch = metadataFetch(clock, google.host)
  const store = gcsStore({ bucket: 'leases', endpoint: `http://${google.host}`, fetch, clock })
  return { google, clock, read: () => store.read('jobs', { signal }) }
}

describe('tokens from the metadata server', () => {
  test('all calls share one token, which is replaced before it expires', async () => {
    const { google, clock, read } = await scene()
    await Promise.all([read(), read(), read()])
    await clock.advance(3_500_000)
    await read()
    expect(new Set(google.shown.splice(0))).toEqual(new Set(['Bearer token-1']))
    await clock.advance(60_000)
    await Promise.all([read(), read()])
    expect(new Set(google.shown)).toEqual(new Set(['Bearer token-2']))
    expect(google.tokens).toHaveLength(2)
  })

  test('a token that was rejected is not sent again', async () => {
    const { google, read } = await scene()
    google.status = 401
    await expect(read()).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    google.status = 404
    await read()
    expect([...new Set(google.shown)]).toEqual(['Bearer token-1', 'Bearer token-2'])
    expect(google.shown.filter((token) => token === 'Bearer token-1')).toHaveLength(1)
  })

  test('a missing token is reported with advice and requested again later', async () => {
    const { google, read } = await scene()
    google.tokenStatus = 404
    await expect(read()).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      retryable: true,
      message: expect.stringContaining('Outside Google Cloud, set "fetch"'),
    })
    google.tokenStatus = 200
    await read()
    expect(new Set(google.shown)).toEqual(new Set(['Bearer token-2']))
  })
})

describe('gs: URLs', () => {
  test('an emulator on this machine receives no token', async () => {
    const google = await startGoogle()
    const store = await openStore('gs://leases/a/b', { environment: { STORAGE_EMULATOR_HOST: google.host } })
    await store.read('jobs', { signal })
    expect(google.tokens).toEqual([])
    expect(new Set(google.shown)).toEqual(new Set([undefined]))
  })

  test('a key file in the environment is refused instead of ignored', async () => {
    const environment = { GOOGLE_APPLICATION_CREDENTIALS: '/run/secrets/key.json' }
    await expect(openStore('gs://leases', { environment })).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('does not read key files'),
    })
  })

  test.each([
    'gs:leases',
    'gs://',
    'gs://leases?colour=red',
    'gs://me:secret@leases',
    'gs://leases?endpoint=http://10.0.0.1',
  ])('openStore refuses %s without showing a secret', async (url) => {
    const error = await openStore(url, { environment: {} }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.not.stringContaining('secret') })
  })
})

test.each([
  ['bucket', { bucket: '' }],
  ['bucket', { bucket: 'Leases/of mine' }],
  ['prefix', { bucket: 'leases', prefix: '' }],
  ['prefix', { bucket: 'leases', prefix: '/a' }],
  ['prefix', { bucket: 'leases', prefix: 'a/../b' }],
  ['fetch', { bucket: 'leases', fetch: 'fetch' }],
  ['endpoint', { bucket: 'leases', endpoint: 'http://storage.example.com' }],
  ['writeIntervalMs', { bucket: 'leases', writeIntervalMs: 0 }],
  ['clock', { bucket: 'leases', clock: {} }],
])('gcsStore refuses an invalid "%s"', (option, options) => {
  expect(() => gcsStore(options as never)).toThrow(new RegExp(`"${option}"`))
  expect(() => gcsStore(options as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
})

describe('findingsOfBucket', () => {
  const found = (description: object) =>
    findingsOfBucket({ ...description }, 'leases', 'tenure/').map(({ risk, text }) => `${risk}: ${text}`)
  const rule = (condition: object, type = 'Delete') => ({ lifecycle: { rule: [{ action: { type }, condition }] } })

  test.each([
    ['an empty description', {}],
    ['a rule for another prefix', rule({ age: 30, matchesPrefix: ['logs/'] })],
    ['a rule for another suffix', rule({ age: 30, matchesSuffix: ['.tmp'] })],
    ['a rule that changes the storage class', rule({ age: 30 }, 'SetStorageClass')],
    [
      'versioning with a rule that deletes old versions',
      { versioning: { enabled: true }, ...rule({ numNewerVersions: 3 }) },
    ],
    ['soft delete turned off', { softDeletePolicy: { retentionDurationSeconds: '0' } }],
  ])('findingsOfBucket reports nothing for %s', (_name, description) => expect(found(description)).toEqual([]))

  test.each([
    ['a rule that deletes objects', rule({ age: 30 }), /^unsafe: A lifecycle rule deletes/],
    [
      'a rule that deletes objects with this prefix',
      rule({ age: 30, matchesPrefix: ['ten'] }),
      /^unsafe: A lifecycle rule deletes/,
    ],
    ['versioning', { versioning: { enabled: true } }, /^tight: The bucket keeps every version/],
    ['a retention policy', { retentionPolicy: { retentionPeriod: '60' } }, /^tight: The bucket has a retention policy/],
    [
      'soft delete',
      { softDeletePolicy: { retentionDurationSeconds: '604800' } },
      /^tight: .* for 7 days \(soft delete\)/,
    ],
  ])('findingsOfBucket reports %s', (_name, description, text) =>
    expect(found(description)).toEqual([expect.stringMatching(text)]),
  )
})
