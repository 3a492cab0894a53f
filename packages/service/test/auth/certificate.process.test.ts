import { request as plainRequest } from 'node:http'
import { Agent, request } from 'node:https'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeCertificate, type Certificate } from '../../../tenure/test/kubernetes/certificate.ts'
import { anyUsage, dns, email, makeAuthority, serverAuth, uri, type Wish } from './certificate-authority.ts'
import { startTestService, type TestService } from './service.ts'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from './tokens.ts'

const server = makeCertificate()
const authority = makeAuthority('Our Authority')
const keys = ecKeys()
const spiffe = 'spiffe://example.org/node-2'
const rights = {
  certificates: [
    { san: 'DNS:node-1.example', node: 'node-1', groups: ['payments-*'] },
    { san: `URI:${spiffe}`, node: 'node-2', groups: ['payments-*'] },
    { san: 'DNS:node-3.example', groups: ['payments-*'] },
    { san: 'DNS:operator.example', admin: true, reader: true },
  ],
}

let service: TestService
beforeAll(async () => {
  service = await startTestService((write) => ({
    tls: {
      certFile: write('server.pem', server.cert),
      keyFile: write('server.key', server.key),
      clientCaFile: write('clients.pem', authority.cert),
    },
    authentication: {
      certificates: { rightsFile: write('rights.json', rights) },
      jwt: { keysFile: write('keys.json', jwkOf(keys.publicKey)), issuer, audience },
    },
  }))
})
afterAll(() => service.close())

interface Reply {
  readonly status: number | undefined
  readonly body: Record<string, unknown>
}

interface Asked {
  readonly client?: Certificate | undefined
  readonly headers?: Record<string, string>
  readonly body?: object
  readonly agent?: Agent
}

function send(method: string, path: string, { client, headers = {}, body, agent }: Asked = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const outgoing = request(service.url + path, {
      method,
      ca: server.cert,
      ...client,
      agent: agent ?? false,
      headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
    })
    outgoing.on('error', reject)
    outgoing.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (data: string) => (text += data))
      response.on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode, body: JSON.parse(text) as Record<string, unknown> }),
      )
    })
    outgoing.end(body && JSON.stringify(body))
  })
}

let groups = 0
const campaign = (client: Certificate | undefined, node_id: string, more: Asked = {}) =>
  send('POST', `/v1/groups/payments-${++groups}/campaign`, { client, body: { node_id, lease_ttl_ms: 5_000 }, ...more })

const sound: Wish = { names: [dns('node-1.example')] }
const elected = { status: 200, body: { is_leader: true } }
const refused = { status: 401, body: { ok: false, error: 'UNAUTHORIZED', message: 'The credential is not valid.' } }

describe('client certificates', () => {
  test('a certificate acts for the node that its DNS name or URI is mapped to', async () => {
    expect(await campaign(authority.issue(sound), 'node-1')).toMatchObject(elected)
    expect(await campaign(authority.issue({ names: [uri(spiffe)] }), 'node-2')).toMatchObject(elected)
    expect(await campaign(authority.issue({ names: [dns('node-3.example')] }), 'node-3.example')).toMatchObject(elected)
  })

  test('a certificate may have other names besides the one that is mapped to a node', async () => {
    const names = [email('one@example'), dns('localhost'), dns('node-1.example'), uri('https://example/')]
    expect(await campaign(authority.issue({ names }), 'node-1')).toMatchObject(elected)
  })

  test('a certificate cannot act for another node', async () => {
    expect(await campaign(authority.issue(sound), 'node-2')).toMatchObject({ status: 403 })
  })

  test('a certificate has only the rights of its entry', async () => {
    const operator = authority.issue({ names: [dns('operator.example')] })
    const group_id = 'payments-of-operator'
    expect(await send('POST', '/v1/groups', { client: operator, body: { group_id } })).toMatchObject({ status: 201 })
    expect(await send('POST', '/v1/groups', { client: authority.issue(sound), body: { group_id } })).toMatchObject({
      status: 403,
    })
    expect(await campaign(operator, 'operator.example')).toMatchObject({ status: 403 })
  })
})

describe('invalid client certificates', () => {
  const day = 86_400_000
  test.each<[string, () => Certificate]>([
    ['with a common name only', () => authority.issue({ commonName: 'node-1.example' })],
    ["with the node's name as its only common name", () => authority.issue({ commonName: 'node-1' })],
    [
      'with the common name of one node and the name of another',
      () => authority.issue({ commonName: 'node-1.example', names: [dns('stranger.example')] }),
    ],
    [
      'with a comma in its common name',
      () => authority.issue({ commonName: 'stranger, DNS:node-1.example', names: [dns('stranger.example')] }),
    ],
    [
      'with a NUL in its common name',
      () => authority.issue({ commonName: 'node-1.example\0.evil.example', names: [dns('stranger.example')] }),
    ],
    [
      'with a common name inside its organization',
      () => authority.issue({ organization: 'Evil, CN=node-1.example', commonName: 'x', names: [dns('x.example')] }),
    ],
    ['with a DNS name given as a URI', () => authority.issue({ names: [uri('node-1.example')] })],
    ['with a URI given as a DNS name', () => authority.issue({ names: [dns(spiffe)] })],
    ['with the name as an email address', () => authority.issue({ names: [email('node-1.example')] })],
    // CVE-2021-44532: text in which one name looks like two.
    ['with two names in one', () => authority.issue({ names: [dns('x.example, DNS:node-1.example')] })],
    ['with two names in one URI', () => authority.issue({ names: [uri('https://x/, DNS:node-1.example')] })],
    ['with quotes around a name', () => authority.issue({ names: [dns('"node-1.example"')] })],
    ['with a NUL in its name', () => authority.issue({ names: [dns('node-1.example\0')] })],
    ['with a NUL and more in its name', () => authority.issue({ names: [dns('node-1.example\0.evil.example')] })],
    ['with a byte that is not ASCII', () => authority.issue({ names: [dns('node-1.exämple')] })],
    ['with a name in other case', () => authority.issue({ names: [dns('NODE-1.example')] })],
    ['with a dot at the end of its name', () => authority.issue({ names: [dns('node-1.example.')] })],
    ['with a wildcard', () => authority.issue({ names: [dns('*.example')] })],
    ['with a wildcard for everything', () => authority.issue({ names: [dns('*')] })],
    ['with names of two nodes', () => authority.issue({ names: [dns('node-1.example'), uri(spiffe)] })],
    ['for servers only', () => authority.issue({ ...sound, usages: [serverAuth] })],
    ['for any usage', () => authority.issue({ ...sound, usages: [anyUsage] })],
    ['without a usage extension', () => authority.issue({ ...sound, usages: [] })],
    ['that has expired', () => authority.issue({ ...sound, startsMs: Date.now() - 2 * day, endsMs: Date.now() - day })],
    [
      'that is not valid yet',
      () => authority.issue({ ...sound, startsMs: Date.now() + day, endsMs: Date.now() + 2 * day }),
    ],
    ['that is a CA certificate itself', () => authority.issue({ ...sound, isAuthority: true })],
    ['that is self-signed', () => makeCertificate({ names: ['node-1.example'] })],
    ['of another authority', () => makeAuthority().issue(sound)],
    ['of another authority with the same name', () => makeAuthority('Our Authority').issue(sound)],
  ])('a certificate is refused: %s', async (_what, make) => {
    expect(await campaign(authority.issue(sound), 'node-1')).toMatchObject(elected)
    expect(await campaign(make(), 'node-1')).toMatchObject(refused)
  })

  test('a certificate issued by another authority is refused even if a valid client certificate follows it in the chain', async () => {
    const { cert } = authority.issue(sound)
    const rogue = makeAuthority('Rogue').issue(sound)
    expect(await campaign({ cert: rogue.cert + cert, key: rogue.key }, 'node-1')).toMatchObject(refused)
  })
})

describe('requests without a certificate', () => {
  const missing = { status: 401, body: { message: 'This request needs a token or a client certificate.' } }

  test('a request without a certificate has no identity and can only read the health endpoint', async () => {
    expect(await campaign(undefined, 'node-1')).toMatchObject(missing)
    expect(await send('GET', '/healthz')).toMatchObject({ status: 200 })
    expect(await send('GET', '/healthz', { client: makeAuthority().issue(sound) })).toMatchObject({ status: 200 })
  })

  test('headers in which a proxy forwards a client certificate are ignored', async () => {
    const { cert } = authority.issue(sound)
    const text = encodeURIComponent(cert)
    const headers = {
      'x-client-cert': text,
      'x-ssl-client-cert': text,
      'x-forwarded-client-cert': `Cert="${text}";URI=${spiffe};DNS=node-1.example`,
      'x-forwarded-tls-client-cert': text,
      'ssl-client-verify': 'SUCCESS',
      'x-ssl-client-verify': 'SUCCESS',
      'ssl-client-subject-dn': 'CN=node-1.example',
      'client-cert': `:${cert.replace(/-----[^-]*-----|\n/g, '')}:`,
      'x-forwarded-user': 'node-1',
    }
    expect(await campaign(undefined, 'node-1', { headers })).toMatchObject(missing)
  })

  test('plain HTTP gets no response from a TLS port', async () => {
    const { port } = new URL(service.url)
    const answer = new Promise((resolve, reject) => {
      plainRequest({ port, host: '127.0.0.1', path: '/healthz' }, resolve).on('error', reject).end()
    })
    await expect(answer).rejects.toThrow()
  })
})

describe('a token beside a certificate', () => {
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const token = signed({ alg: 'ES256' }, claimsOf('node-9'), keys.privateKey)

  test('only the token counts when a request has a token and a certificate', async () => {
    const client = authority.issue(sound)
    expect(await campaign(client, 'node-9', { headers: bearer(token) })).toMatchObject(elected)
    expect(await campaign(client, 'node-1', { headers: bearer(token) })).toMatchObject({ status: 403 })
    expect(await campaign(undefined, 'node-9', { headers: bearer(token) })).toMatchObject(elected)
  })

  test('a certificate does not make up for an invalid token', async () => {
    const client = authority.issue(sound)
    expect(await campaign(client, 'node-1')).toMatchObject(elected)
    expect(await campaign(client, 'node-1', { headers: bearer('x.y.z') })).toMatchObject(refused)
  })
})

describe('TLS connections', () => {
  const dial = (options: ConnectionOptions) =>
    new Promise<TLSSocket>((resolve, reject) => {
      const port = Number(new URL(service.url).port)
      const socket = connect({ port, host: '127.0.0.1', ca: server.cert, ...options }, () => resolve(socket))
      socket.on('error', reject)
    })
  const look = (socket: TLSSocket) =>
    new Promise<string>((resolve) => {
      socket.once('data', (data) => resolve(data.toString().slice(0, 12)))
      socket.write('GET /v1/groups HTTP/1.1\r\nHost: x\r\n\r\n')
    })

  test.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'a %s session is not resumed with an earlier identity',
    async (version) => {
      const options = { ...authority.issue(sound), minVersion: version, maxVersion: version }
      const sessions: Buffer[] = []
      const first = await dial(options)
      first.on('session', (session) => sessions.push(session))
      expect(await look(first)).toBe('HTTP/1.1 200')
      const session = sessions.at(-1) ?? first.getSession()
      first.destroy()
      if (!session) throw new Error('there is no session to resume')
      // The session alone, without the certificate. A server that resumed it would still know the identity.
      const bare = { minVersion: version, maxVersion: version, session }
      const again = await dial(bare)
      expect(again.isSessionReused()).toBe(false)
      expect(await look(again)).toBe('HTTP/1.1 401')
      again.destroy()
      const renewed = await dial({ ...options, session })
      expect(renewed.isSessionReused()).toBe(false)
      expect(await look(renewed)).toBe('HTTP/1.1 200')
      renewed.destroy()
    },
  )

  test('a TLS 1.2 connection cannot be renegotiated', async () => {
    const socket = await dial({ ...authority.issue(sound), maxVersion: 'TLSv1.2' })
    const renegotiated = new Promise((resolve) => {
      socket.on('error', () => resolve('refused'))
      socket.on('close', () => resolve('refused'))
      socket.renegotiate({}, (error) => resolve(error ? 'refused' : 'done'))
    })
    expect(await renegotiated).toBe('refused')
    socket.destroy()
  })

  test('requests on an open connection are refused once its client certificate has expired', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    // Certificates expire at full seconds.
    const client = authority.issue({ ...sound, endsMs: Math.ceil(Date.now() / 1000) * 1000 + 2_000 })
    const list = () => send('GET', '/v1/groups', { client, agent })
    expect(await list()).toMatchObject({ status: 200 })
    await expect.poll(async () => (await list()).status, { interval: 100, timeout: 5_000 }).toBe(401)
    expect(await list()).toMatchObject({ status: 401, body: { message: 'The credential has expired.' } })
    const sockets = Object.values(agent.freeSockets).flat()
    expect(sockets).toHaveLength(1)
    agent.destroy()
  })
})
