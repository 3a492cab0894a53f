import { X509Certificate } from 'node:crypto'
import { Agent, request } from 'node:https'
import { connect, type PeerCertificate } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { makeCertificate, type Certificate } from '../../../tenure/test/kubernetes/certificate.ts'
import { systemClock } from '../../src/common/clock.ts'
import type { ServiceOptions } from '../../src/index.ts'
import { dns, makeAuthority } from './certificate-authority.ts'
import { answers, expectRefused, json, open, request as message } from '../attacks.ts'
import { ask, startTestService, type TestService } from './service.ts'
import { audience, claimsOf, ecKeys, issuer, jwkOf, nowSeconds, rsaKeys, signed } from './tokens.ts'

const [one, two] = [ecKeys(), ecKeys()]
const first = jwkOf(one.publicKey, { kid: 'one' })
const second = jwkOf(two.publicKey, { kid: 'two' })
const tokenOne = (claims: object = {}) =>
  signed({ alg: 'ES256', kid: 'one' }, { ...claimsOf('node-1'), ...claims }, one.privateKey)
const tokenTwo = () => signed({ alg: 'ES256', kid: 'two' }, claimsOf('node-2'), two.privateKey)

let service: TestService
let isShared = false
afterEach(() => (isShared ? undefined : service.close()))

/** Uses one service for all tests of a suite. They must leave it unchanged. */
function shareService(start: () => Promise<void>): void {
  beforeAll(async () => {
    await start()
    isShared = true
  })
  afterAll(async () => {
    isShared = false
    await service.close()
  })
}

const path = '/v1/groups/payments-1'
const statusOf = async (token: string) => (await ask(service.url, token, 'GET', `${path}/leader`)).status

async function startWith(keys: unknown, more: Partial<ServiceOptions> = {}): Promise<void> {
  service = await startTestService(
    (write) => ({
      authentication: { jwt: { keysFile: write('keys.json', keys), issuer, audience, clockToleranceMs: 0 } },
      ...more,
    }),
    'one',
  )
}

const openStream = (token: string) =>
  fetch(`${service.url}${path}/watch`, { headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream' } })

/** Reads until the stream ends. */
async function readAll(response: Response): Promise<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) text += decoder.decode(chunk as Uint8Array, { stream: true })
  return text
}

describe('reloaded keys', () => {
  test('reloaded keys take effect at once, even for tokens that were accepted before', async () => {
    await startWith({ keys: [first] })
    const [old, next] = [tokenOne(), tokenTwo()]
    expect([await statusOf(old), await statusOf(next)]).toEqual([200, 401])
    service.write('keys.json', { keys: [first, second] })
    expect([await statusOf(old), await statusOf(next)]).toEqual([200, 401])
    await service.running.reload()
    expect([await statusOf(old), await statusOf(next)]).toEqual([200, 200])
    service.write('keys.json', { keys: [second] })
    await service.running.reload()
    expect([await statusOf(old), await statusOf(next)]).toEqual([401, 200])
  })

  test('a reload of keys ends streams, polls, and waiting campaigns whose token is no longer valid', async () => {
    await startWith({ keys: [first] })
    const token = tokenOne()
    const campaign = (more: object) =>
      ask(service.url, token, 'POST', `${path}/campaign`, { node_id: 'node-1', lease_ttl_ms: 60_000, ...more })
    await campaign({})
    const { body } = await ask(service.url, token, 'GET', `${path}/watch`)
    const poll = ask(service.url, token, 'GET', `${path}/watch?wait_ms=60000&cursor=${String(body['cursor'])}`)
    const stream = await openStream(token)
    const inLine = campaign({ wait_ms: 60_000 })
    const reader = tokenOne({ tenure: { reader: true } })
    const figures = async () => String((await ask(service.url, reader, 'GET', '/metrics')).body['text'])
    await expect.poll(figures).toMatch(/^tenure_watchers 2$/m)
    await expect.poll(figures).toMatch(/^tenure_waiting_campaigns 1$/m)
    service.write('keys.json', { keys: [second] })
    await service.running.reload()
    expect(await readAll(stream)).toContain('STATE')
    expect(await poll).toMatchObject({ status: 200, body: { events: [] } })
    expect(await inLine).toMatchObject({ status: 200, body: { is_leader: false } })
    expect((await openStream(token)).status).toBe(401)
    const fresh = await openStream(tokenTwo())
    expect(fresh.status).toBe(200)
    await fresh.body?.cancel()
  })

  test('a keys file may have several PEM keys, each named by its thumbprint', async () => {
    const rsa = rsaKeys()
    const pem = [one, rsa].map(({ publicKey }) => publicKey.export({ type: 'spki', format: 'pem' }).toString())
    await startWith(pem[0])
    const bare = signed({ alg: 'ES256' }, claimsOf('node-1'), one.privateKey)
    expect(await statusOf(bare)).toBe(200)
    service.write('keys.json', pem.join(''))
    await service.running.reload()
    expect(await statusOf(bare)).toBe(200)
    const { calculateJwkThumbprint } = await import('jose')
    const kid = await calculateJwkThumbprint(rsa.publicKey.export({ format: 'jwk' }))
    expect(await statusOf(signed({ alg: 'RS256', kid }, claimsOf('node-1'), rsa.privateKey, 'RS256'))).toBe(200)
  })
})

/** Sends the head of a request, and its body once `finish` is called. */
async function begin(token: string, line: string, body: object) {
  const text = JSON.stringify(body)
  const socket = open(service.url)
  const headers = [json, `Authorization: Bearer ${token}`, `Content-Length: ${text.length}`]
  socket.write(message(service.url, line, headers))
  const answer = answers(socket, 1)
  // By the time this request is answered, the service has read the head that was sent earlier.
  await statusOf(token)
  return {
    async finish() {
      socket.write(text)
      return (await answer)[0]
    },
  }
}

describe('requests with a late body', () => {
  const claim = { node_id: 'node-1', lease_ttl_ms: 60_000 }

  test('a request whose body arrives late is checked against the keys that are in use once it is complete', async () => {
    await startWith({ keys: [first] })
    const slow = [
      await begin(tokenOne(), `POST ${path}/campaign`, claim),
      await begin(tokenOne(), `POST ${path}/campaign`, { ...claim, wait_ms: 60_000 }),
      await begin(tokenOne({ tenure: { admin: true } }), `PUT ${path}`, { allowed_nodes: [] }),
    ]
    service.write('keys.json', { keys: [second] })
    await service.running.reload()
    for (const { finish } of slow) expectRefused(await finish(), 401)
    const { body } = await ask(service.url, tokenTwo(), 'GET', `${path}/leader`)
    expect(body).toMatchObject({ leader: null, highest_term: 0 })
  })

  test('a request whose body arrives late succeeds if its key is still valid', async () => {
    await startWith({ keys: [first] })
    const { finish } = await begin(tokenOne(), `POST ${path}/campaign`, claim)
    service.write('keys.json', { keys: [first, second] })
    await service.running.reload()
    expect(await finish()).toMatchObject({ status: 200, body: { is_leader: true } })
  })

  test('a request whose body arrives late is refused if its token has expired in the meantime', async () => {
    let aheadMs = 0
    await startWith({ keys: [first] }, { clock: { ...systemClock, wallMs: () => Date.now() + aheadMs } })
    const { finish } = await begin(tokenOne(), `POST ${path}/campaign`, claim)
    aheadMs = 600_000
    expectRefused(await finish(), 401)
  })
})

describe('invalid keys', () => {
  shareService(() => startWith({ keys: [first] }))

  test.each<[string, unknown, RegExp]>([
    ['invalid JSON', '{ "keys": [', /keysFile/],
    ['nothing', '', /no signing key/],
    ['no keys', { keys: [] }, /no signing key/],
    ['a private key', jwkOf(one.privateKey), /private/],
    ['a private key in PEM', one.privateKey.export({ type: 'pkcs8', format: 'pem' }), /private/],
    ['a certificate', makeCertificate().cert, /certificate; provide only the public key/],
    ['a shared secret', { keys: [{ kty: 'oct', alg: 'HS256', k: 'A'.repeat(43) }] }, /secret/],
    ['a key with alg none', { keys: [{ ...first, alg: 'none' }] }, /unknown kind/],
    ['a key with the alg of another key type', { keys: [{ ...first, alg: 'RS256' }] }, /unknown kind/],
    ['a key on an unknown curve', { keys: [{ ...first, crv: 'secp256k1' }] }, /unknown kind/],
    ['a key that is not a point on its curve', { keys: [{ ...first, x: 'AAAA' }] }, /cannot be used/],
    ['an RSA key of 1024 bits', { keys: [jwkOf(rsaKeys(1024).publicKey)] }, /less than 2048/],
    ['two keys with one kid', { keys: [first, { ...second, kid: 'one' }] }, /two keys/],
    ['a duplicate JSON key', '{"keys":[],"keys":[]}', /duplicate key/],
    ['a key only for encryption', { keys: [{ ...first, use: 'enc' }] }, /no signing key/],
    ['a key that may not verify', { keys: [{ ...first, key_ops: ['sign'] }] }, /key_ops/],
    ['a list', [first], /no signing key/],
  ])('an invalid keys file is refused and changes nothing: %s', async (_what, content, message) => {
    service.write('keys.json', content)
    await expect(service.running.reload()).rejects.toThrow(message)
    expect(await statusOf(tokenOne())).toBe(200)
    await expect(
      startTestService((write) => ({
        authentication: { jwt: { keysFile: write('keys.json', content), issuer, audience } },
      })),
    ).rejects.toThrow(message)
  })
})

describe('expiring tokens', () => {
  test('a leader cannot renew once its token has expired', async () => {
    await startWith({ keys: [first] })
    const token = tokenOne({ exp: nowSeconds() + 1.5 })
    const held = { node_id: 'node-1', term: 1, extend_by_ms: 60_000 }
    const renew = () => ask(service.url, token, 'POST', `${path}/renew`, held)
    await ask(service.url, token, 'POST', `${path}/campaign`, { node_id: 'node-1', lease_ttl_ms: 60_000 })
    expect(await renew()).toMatchObject({ status: 200 })
    await expect.poll(async () => (await renew()).status, { interval: 100, timeout: 5_000 }).toBe(401)
    // The same leader continues with a new token.
    expect(await ask(service.url, tokenOne(), 'POST', `${path}/renew`, held)).toMatchObject({ status: 200 })
  })

  test('an expired token soon ends the stream that it opened', async () => {
    await startWith({ keys: [first] })
    const exp = nowSeconds() + 1.5
    const stream = await openStream(tokenOne({ exp }))
    expect(stream.status).toBe(200)
    expect(await readAll(stream)).toContain('STATE')
    expect(nowSeconds()).toBeGreaterThan(exp - 0.05)
    expect(nowSeconds() - exp).toBeLessThan(10)
  })

  test('an expired token ends a poll and a waiting campaign', async () => {
    await startWith({ keys: [first] })
    await ask(service.url, tokenOne(), 'POST', `${path}/campaign`, { node_id: 'node-1', lease_ttl_ms: 60_000 })
    const exp = nowSeconds() + 1
    const token = tokenOne({ exp })
    const { body } = await ask(service.url, token, 'GET', `${path}/watch`)
    const answers = await Promise.all([
      ask(service.url, token, 'GET', `${path}/watch?wait_ms=60000&cursor=${String(body['cursor'])}`),
      ask(service.url, token, 'POST', `${path}/campaign`, { node_id: 'node-1', lease_ttl_ms: 60_000, wait_ms: 60_000 }),
    ])
    expect(answers).toMatchObject([
      { status: 200, body: { events: [] } },
      { status: 200, body: { is_leader: false } },
    ])
    expect(nowSeconds() - exp).toBeLessThan(10)
  })

  test('the expiry of a token is checked with the wall clock of the service', async () => {
    let aheadMs = 0
    await startWith({ keys: [first] }, { clock: { ...systemClock, wallMs: () => Date.now() + aheadMs } })
    const token = tokenOne()
    expect(await statusOf(token)).toBe(200)
    aheadMs = 601_000
    expect(await statusOf(token)).toBe(401)
    aheadMs = -60_000
    expect(await statusOf(token)).toBe(401)
  })
})

describe('reloaded TLS files', () => {
  const [serverOne, serverTwo] = [makeCertificate(), makeCertificate()]
  const [authorityOne, authorityTwo] = [makeAuthority(), makeAuthority()]
  const entry = (groups: string[]) => ({ certificates: [{ san: 'DNS:node-1.example', groups }] })
  const wish = { names: [dns('node-1.example')] }

  const half = (pem: string) => `${pem.slice(0, Math.floor(pem.length / 2))}\n`
  const tail = (pem: string) => pem.slice(pem.indexOf('\n') + 1)

  const writeAll = (write: TestService['write']) => ({
    tls: {
      certFile: write('server.pem', serverOne.cert),
      keyFile: write('server.key', serverOne.key),
      clientCaFile: write('clients.pem', authorityOne.cert),
    },
    authentication: { certificates: { rightsFile: write('rights.json', entry(['payments-*'])) } },
  })
  async function startTls(): Promise<void> {
    service = await startTestService(writeAll)
  }
  const shownCertificate = () =>
    new Promise<PeerCertificate>((resolve, reject) => {
      const port = Number(new URL(service.url).port)
      const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
        resolve(socket.getPeerCertificate())
        socket.destroy()
      })
      socket.on('error', reject)
    })
  const look = (client: Certificate, agent: Agent) =>
    new Promise<number | string>((resolve) => {
      const trusted = [serverOne.cert, serverTwo.cert]
      request(`${service.url}${path}/leader`, { ca: trusted, ...client, agent }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0))
      })
        .on('error', (error) => resolve(error.message))
        .end()
    })
  const fingerprint = ({ cert }: Certificate) => new X509Certificate(cert).fingerprint256

  test('new connections get the new certificate after a reload, and open connections stay open', async () => {
    await startTls()
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const client = authorityOne.issue(wish)
    expect(await look(client, agent)).toBe(200)
    expect((await shownCertificate()).fingerprint256).toBe(fingerprint(serverOne))
    service.write('server.pem', serverTwo.cert)
    await expect(service.running.reload()).rejects.toThrow(/tls\.certFile and tls\.keyFile/)
    expect((await shownCertificate()).fingerprint256).toBe(fingerprint(serverOne))
    service.write('server.key', serverTwo.key)
    await service.running.reload()
    expect((await shownCertificate()).fingerprint256).toBe(fingerprint(serverTwo))
    const before = Object.values(agent.freeSockets).flat()[0]
    expect(await look(client, agent)).toBe(200)
    expect(Object.values(agent.freeSockets).flat()[0]).toBe(before)
    agent.destroy()
  })

  test('a reload removes rights from open connections', async () => {
    await startTls()
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const client = authorityOne.issue(wish)
    expect(await look(client, agent)).toBe(200)
    service.write('rights.json', entry(['billing-*']))
    // One invalid file prevents all the others from being used.
    service.write('server.pem', 'hello')
    await expect(service.running.reload()).rejects.toThrow(/tls\.certFile/)
    expect(await look(client, agent)).toBe(200)
    service.write('server.pem', serverOne.cert)
    await service.running.reload()
    expect(await look(client, agent)).toBe(403)
    service.write('rights.json', { certificates: [] })
    await service.running.reload()
    expect(await look(client, agent)).toBe(401)
    agent.destroy()
  })

  test('a leader whose right is withdrawn cannot renew, and its lease expires', async () => {
    await startTls()
    service.write('rights.json', {
      certificates: [
        { san: 'DNS:node-1.example', groups: ['payments-*'] },
        { san: 'DNS:node-2.example', groups: ['payments-*'] },
      ],
    })
    await service.running.reload()
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const [leader, other] = [authorityOne.issue(wish), authorityOne.issue({ names: [dns('node-2.example')] })]
    const post = (client: Certificate, verb: string, body: object, through = new Agent()) =>
      new Promise<{ status: number; body: Record<string, unknown> }>((resolve, reject) => {
        const options = { ca: [serverOne.cert], ...client, agent: through, method: 'POST' }
        const headers = { 'content-type': 'application/json' }
        request(`${service.url}${path}/${verb}`, { ...options, headers }, (response) => {
          let text = ''
          response.on('data', (chunk: Buffer) => void (text += chunk.toString()))
          response.on('end', () =>
            resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as Record<string, unknown> }),
          )
        })
          .on('error', reject)
          .end(JSON.stringify(body))
      })
    const claim = { node_id: 'node-1.example', lease_ttl_ms: 3_000 }
    expect(await post(leader, 'campaign', claim, agent)).toMatchObject({ body: { is_leader: true } })
    const renew = () => post(leader, 'renew', { node_id: claim.node_id, term: 1, extend_by_ms: 3_000 }, agent)
    expect(await renew()).toMatchObject({ status: 200 })
    service.write('rights.json', {
      certificates: [
        { san: 'DNS:node-1.example', groups: ['billing-*'] },
        { san: 'DNS:node-2.example', groups: ['payments-*'] },
      ],
    })
    await service.running.reload()
    expect(await renew()).toMatchObject({ status: 403, body: { error: 'UNAUTHORIZED' } })
    const next = { node_id: 'node-2.example', lease_ttl_ms: 3_000, wait_ms: 60_000 }
    expect(await post(other, 'campaign', next)).toMatchObject({ body: { is_leader: true, leader: { term: 2 } } })
    agent.destroy()
  })

  test('a reload ends connections whose certificate authority was removed', async () => {
    await startTls()
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const client = authorityOne.issue(wish)
    expect(await look(client, agent)).toBe(200)
    const connection = Object.values(agent.freeSockets).flat()[0]
    const ended = new Promise((resolve) => connection?.once('close', resolve))
    service.write('clients.pem', authorityTwo.cert)
    await service.running.reload()
    await ended
    expect(await look(client, agent)).toBe(401)
    expect(await look(authorityTwo.issue(wish), new Agent())).toBe(200)
    service.write('clients.pem', authorityTwo.cert + authorityOne.cert)
    await service.running.reload()
    expect(await look(client, new Agent())).toBe(200)
    agent.destroy()
  })

  describe('invalid TLS files', () => {
    shareService(startTls)

    test.each<[string, string, unknown, RegExp]>([
      // Node would trust all public authorities.
      ['an empty file of authorities', 'clients.pem', '', /clientCaFile: it contains no certificate/],
      ['text that is not a certificate', 'clients.pem', 'hello', /clientCaFile: it contains no certificate/],
      ['a client certificate as an authority', 'clients.pem', authorityOne.issue(wish).cert, /not a CA certificate/],
      ['a key as an authority', 'clients.pem', serverOne.key, /not a PRIVATE KEY/],
      ['no certificate', 'server.pem', 'hello', /tls\.certFile/],
      ['half an authority', 'clients.pem', authorityOne.cert + half(authorityTwo.cert), /clientCaFile: .*incomplete/],
      [
        'half an authority before a complete one',
        'clients.pem',
        half(authorityTwo.cert) + authorityOne.cert,
        /incomplete/,
      ],
      ['an authority without its first line', 'clients.pem', authorityOne.cert + tail(authorityTwo.cert), /incomplete/],
      ['half a chain', 'server.pem', serverOne.cert + half(authorityTwo.cert), /certFile: .*incomplete/],
      ['half a key', 'server.key', serverOne.key + half(serverTwo.key), /keyFile: .*incomplete/],
      ['a wildcard', 'rights.json', { certificates: [{ san: 'DNS:*.example' }] }, /without \*/],
      ['a name without a type', 'rights.json', { certificates: [{ san: 'node-1.example' }] }, /"DNS:"/],
      ['a common name', 'rights.json', { certificates: [{ san: 'CN:node-1' }] }, /"DNS:"/],
      ['an unknown right', 'rights.json', { certificates: [{ san: 'DNS:a', root: true }] }, /unknown field "root"/],
      ['a duplicate name', 'rights.json', { certificates: [{ san: 'DNS:a' }, { san: 'DNS:a' }] }, /twice/],
      [
        'a duplicate field',
        'rights.json',
        '{"certificates":[{"san":"DNS:a","admin":false,"admin":true}]}',
        /duplicate key/,
      ],
      ['a field beside the certificates', 'rights.json', { certificates: [], more: 1 }, /must be \{/],
      ['an object instead of a list', 'rights.json', { certificates: {} }, /must be \{/],
    ])('a reload with invalid TLS files changes nothing: %s', async (_what, file, content, message) => {
      service.write(file, content)
      await expect(service.running.reload()).rejects.toThrow(message)
      writeAll(service.write)
      const agent = new Agent()
      expect(await look(authorityOne.issue(wish), agent)).toBe(200)
      expect(await look(authorityTwo.issue(wish), agent)).toBe(401)
    })
  })
})
