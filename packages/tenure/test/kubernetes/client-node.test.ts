import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KubeConfig } from '@kubernetes/client-node'
import { afterAll, beforeAll, describe, expect, expectTypeOf, onTestFinished, test } from 'vitest'
import { startProxy } from '../../../../test/servers/proxy.ts'
import { describeWithCluster } from '../../../../test/servers/suite.ts'
import { clientNodeConnection, fromClientNode, type KubeConfigLike } from '../../src/kubernetes/client-node.ts'
import type { KubernetesClient } from '../../src/kubernetes/client.ts'
import { fakeClock } from '../../src/testing/index.ts'

const folder = mkdtempSync(join(tmpdir(), 'tenure-client-node-'))
afterAll(() => rmSync(folder, { recursive: true }))

const server = 'https://10.0.0.1:6443'
const base64 = (text: string) => Buffer.from(text).toString('base64')

function config(cluster: object, user: object): KubeConfig {
  const made = new KubeConfig()
  made.loadFromOptions({
    clusters: [{ name: 'here', server, skipTLSVerify: false, ...cluster }],
    users: [{ name: 'me', ...user }],
    contexts: [{ name: 'me@here', cluster: 'here', user: 'me' }],
    currentContext: 'me@here',
  })
  return made
}

// The type checker is what judges here.
test('a KubeConfig of @kubernetes/client-node fits', () => {
  expectTypeOf<KubeConfig>().toExtend<KubeConfigLike>()
  const fits: KubeConfigLike = new KubeConfig()
  expect(fits.getCurrentCluster()).toBeNull()
})

describe('which client', () => {
  test('one KubeConfig gives one client, so that all who use it share connections', () => {
    const one = config({}, {})
    expect(fromClientNode(one)).toBe(fromClientNode(one))
    expect(fromClientNode(one).server).toBe(server)
    expect(fromClientNode(config({}, {}))).not.toBe(fromClientNode(one))
  })

  test('one that has been loaded from nowhere is refused', () => {
    expect(() => fromClientNode(new KubeConfig())).toThrow('Call its loadFromDefault()')
  })

  test('what is no KubeConfig is refused', () => {
    for (const wrong of [undefined, null, 'config', {}, { getCurrentCluster() {} }]) {
      expect(() => Reflect.apply(fromClientNode, undefined, [wrong])).toThrow('Option "client"')
    }
  })

  test('a server in the clear is refused', () => {
    expect(() => fromClientNode(config({ server: 'http://10.0.0.1' }, {}))).toThrow('https: address')
  })
})

describe('credentials', () => {
  const credentialsOf = async (from: KubeConfigLike) => clientNodeConnection(from, server).credentials()

  test('a token, a password, a certificate and all that TLS needs are taken, the agent is not', async () => {
    expect(await credentialsOf(config({}, { token: 'abc' }))).toEqual({ authorization: 'Bearer abc', tls: {} })
    const password = await credentialsOf(config({}, { username: 'me', password: 'abc' }))
    expect(password.authorization).toBe(`Basic ${base64('me:abc')}`)
    const cluster = { caData: base64('ca'), skipTLSVerify: true, tlsServerName: 'name' }
    const { tls, agent } = await credentialsOf(config(cluster, { certData: base64('cert'), keyData: base64('key') }))
    expect(tls).toEqual({
      ca: Buffer.from('ca'),
      cert: Buffer.from('cert'),
      key: Buffer.from('key'),
      rejectUnauthorized: false,
      servername: 'name',
    })
    expect(agent).toBeUndefined()
  })

  test('impersonation is refused, not forgotten', async () => {
    const impersonating = config({}, { token: 'abc', impersonateUser: 'you' })
    await expect(credentialsOf(impersonating)).rejects.toThrow('adds the header Impersonate-User')
  })

  test('those of another cluster are not asked for', async () => {
    let asked = 0
    let current = server
    const moving: KubeConfigLike = {
      getCurrentCluster: () => ({ server: current }),
      applyToHTTPSOptions: async () => void asked++,
    }
    const connection = clientNodeConnection(moving, server)
    await connection.credentials()
    current = 'https://other.example'
    expect(() => connection.credentials()).toThrow(`no longer points to ${server}`)
    expect(asked).toBe(1)
    expect(fromClientNode(moving).server).toBe(current)
  })

  test('a plugin that hangs is asked again after a while, and only so often', async () => {
    const clock = fakeClock()
    const waiting: (() => void)[] = []
    const hanging: KubeConfigLike = {
      getCurrentCluster: () => ({ server }),
      applyToHTTPSOptions: () => new Promise((resolve) => waiting.push(resolve)),
    }
    const connection = clientNodeConnection(hanging, server, clock)
    const ask = () => {
      for (let i = 0; i < 10; i++) void connection.credentials()
    }
    for (const expected of [1, 2, 3, 4, 4, 4]) {
      ask()
      expect(waiting).toHaveLength(expected)
      await clock.advance(60_000)
    }
    // One of them comes to an end: there is room for another.
    waiting[0]?.()
    await clock.advance(1)
    ask()
    expect(waiting).toHaveLength(5)
    const answer = connection.credentials()
    waiting[4]?.()
    expect(await answer).toEqual({ tls: {} })
    ask()
    expect(waiting).toHaveLength(6)
  })
})

describeWithCluster('calls with a KubeConfig of @kubernetes/client-node', (cluster) => {
  const path = '/apis/coordination.k8s.io/v1/namespaces/default/leases/seen'
  beforeAll(async () => {
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'seen' } }
    const { status } = await cluster().admin.request('POST', path.replace('/seen', ''), lease)
    expect(status).toBe(201)
  })

  const here = () => ({ server: cluster().url, caData: base64(cluster().ca) })
  const open = (more: object, user: object) => {
    const client = fromClientNode(config({ ...here(), ...more }, user))
    onTestFinished(() => client.close())
    return client
  }
  const get = (client: KubernetesClient, timeoutMs?: number) =>
    client.request({ method: 'GET', path, timeoutMs, signal: new AbortController().signal })

  /** A plugin that runs this code; each run adds a line to the file. */
  const plugin = (code: string) => {
    const runs = join(mkdtempSync(join(folder, 'plugin-')), 'runs')
    const script = `const fs = require('node:fs'); fs.appendFileSync(${JSON.stringify(runs)}, 'run\\n'); ${code}`
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: process.execPath, args: ['-e', script] }
    return { exec, runs: () => readFileSync(runs, 'utf8').split('\n').length - 1 }
  }
  const print = (status: object) => {
    const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status }
    return `console.log(${JSON.stringify(JSON.stringify(credential))});`
  }

  test('a token', async () => {
    const answer = await get(open({}, { token: cluster().adminToken }))
    expect(answer).toMatchObject({ status: 200, body: { kind: 'Lease', metadata: { name: 'seen' } } })
    expect(await get(open({}, { token: 'wrong' }))).toMatchObject({ status: 401 })
  })

  test('a token file that ends with a line break', async () => {
    const tokenFile = join(folder, 'token')
    writeFileSync(tokenFile, `${cluster().adminToken}\n`)
    const user = { authProvider: { name: 'tokenFile', config: { tokenFile } } }
    expect(await get(open({}, user))).toMatchObject({ status: 200 })
  })

  test('a client certificate', async () => {
    const { cert, key } = cluster().clientCertificate('somebody', ['system:masters'])
    expect(await get(open({}, { certData: base64(cert), keyData: base64(key) }))).toMatchObject({ status: 200 })
  })

  test('a kubeconfig that it has loaded', async () => {
    const { caFile, url, adminToken } = cluster()
    const loaded = new KubeConfig()
    loaded.loadFromString(`clusters:
- cluster:
    certificate-authority: ${caFile}
    server: ${url}
  name: here
contexts:
- context:
    cluster: here
    user: me
  name: me@here
current-context: me@here
users:
- name: me
  user:
    token: ${adminToken}
`)
    const client = fromClientNode(loaded)
    onTestFinished(() => client.close())
    expect(await get(client)).toMatchObject({ status: 200 })
  })

  test('a wrong authority is not trusted', async () => {
    const { cert } = cluster().clientCertificate('somebody')
    const client = open({ caData: base64(cert) }, { token: cluster().adminToken })
    await expect(get(client)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })

  test('connections are kept from call to call', async () => {
    const proxy = await startProxy(Number(new URL(cluster().url).port))
    onTestFinished(() => proxy.stop())
    const client = open({ server: `https://127.0.0.1:${proxy.port}` }, { token: cluster().adminToken })
    for (let i = 0; i < 5; i++) expect(await get(client)).toMatchObject({ status: 200 })
    expect(proxy.opened).toBe(1)
  })

  test('a proxy is used where the cluster has one', async () => {
    const asked: (string | undefined)[] = []
    const proxy = createServer().on('connect', (request, socket) => {
      asked.push(request.url)
      const [host, port] = (request.url ?? '').split(':')
      const upstream = connect(Number(port), host, () => {
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
        upstream.pipe(socket).pipe(upstream)
      })
      for (const end of [upstream, socket]) end.on('error', () => upstream.destroy())
    })
    await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void proxy.close())
    const proxyUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    expect(await get(open({ proxyUrl }, { token: cluster().adminToken }))).toMatchObject({ status: 200 })
    expect(asked).toEqual([new URL(cluster().url).host])
  })

  test('a plugin is run once for as long as its token is good', async () => {
    const expirationTimestamp = new Date(Date.now() + 3_600_000).toISOString()
    const { exec, runs } = plugin(print({ token: cluster().adminToken, expirationTimestamp }))
    const client = open({}, { exec })
    const answers = await Promise.all([get(client), get(client), get(client)])
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(await get(client)).toMatchObject({ status: 200 })
    expect(runs()).toBe(1)
  })

  test('a certificate that a plugin gives', async () => {
    const { cert, key } = cluster().clientCertificate('somebody', ['system:masters'])
    const { exec } = plugin(print({ clientCertificateData: cert, clientKeyData: key }))
    expect(await get(open({}, { exec }))).toMatchObject({ status: 200 })
  })

  test('a plugin that hangs holds no call longer than its deadline, and is not started for each', async () => {
    const go = join(folder, 'go')
    const { exec, runs } = plugin(
      `const timer = setInterval(() => {
        if (!fs.existsSync(${JSON.stringify(go)})) return
        clearInterval(timer)
        ${print({ token: cluster().adminToken })}
      }, 10)`,
    )
    const client = open({}, { exec })
    for (let i = 0; i < 3; i++) await expect(get(client, 50)).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(existsSync(go)).toBe(false)
    writeFileSync(go, '')
    expect(await get(client)).toMatchObject({ status: 200 })
    expect(runs()).toBe(1)
  })

  test('a plugin that fails is quoted, except for what may be its token', async () => {
    const failing = plugin(`console.error('log in first'); process.exitCode = 1`)
    await expect(get(open({}, { exec: failing.exec }))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: 'The KubeConfig gave no credentials: log in first',
      retryable: true,
    })
    const chatty = plugin(`console.log('s3cr3t')`)
    const failure: unknown = await get(open({}, { exec: chatty.exec })).catch((error: unknown) => error)
    expect(failure).toMatchObject({ message: 'The KubeConfig gave no credentials: its plugin printed no JSON.' })
    expect(failure).not.toHaveProperty('cause')
    const missing = open({}, { exec: { command: join(folder, 'none') } })
    await expect(get(missing)).rejects.toMatchObject({ message: expect.stringContaining('ENOENT') })
  })
})
