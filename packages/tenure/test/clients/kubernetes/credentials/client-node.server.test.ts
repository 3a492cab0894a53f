import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { KubeConfig } from '@kubernetes/client-node'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startProxy } from '../../../../../../test/servers/proxy.ts'
import { describeWithCluster } from '../../../../../../test/servers/suite.ts'
import { fromClientNode } from '../../../../src/clients/kubernetes/credentials/client-node.ts'
import type { KubernetesClient } from '../../../../src/clients/kubernetes/client.ts'
import { config, base64 } from './client-node-config.ts'

const folder = mkdtempSync(join(tmpdir(), 'tenure-client-node-'))
afterAll(() => rmSync(folder, { recursive: true }))

describeWithCluster('fromClientNode on a real API server', (cluster) => {
  const path = () => `/apis/coordination.k8s.io/v1/namespaces/${cluster().namespace}/leases/seen`
  beforeAll(async () => {
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'seen' } }
    const { status } = await cluster().admin.request('POST', path().replace('/seen', ''), lease)
    expect(status).toBe(201)
  })

  const here = () => ({ server: cluster().url, caData: base64(cluster().ca) })
  const open = (more: object, user: object) => {
    const client = fromClientNode(config({ ...here(), ...more }, user))
    onTestFinished(() => client.close())
    return client
  }
  const get = (client: KubernetesClient, timeoutMs?: number) =>
    client.request({ method: 'GET', path: path(), timeoutMs, signal: new AbortController().signal })

  /** A plugin that runs this code. Each run adds a line to the file. */
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

  test('a KubeConfig with a token is accepted', async () => {
    const answer = await get(open({}, { token: cluster().adminToken }))
    expect(answer).toMatchObject({ status: 200, body: { kind: 'Lease', metadata: { name: 'seen' } } })
    expect(await get(open({}, { token: 'wrong' }))).toMatchObject({ status: 401 })
  })

  test('a KubeConfig with a token file that ends with a line break is accepted', async () => {
    const tokenFile = join(folder, 'token')
    writeFileSync(tokenFile, `${cluster().adminToken}\n`)
    const user = { authProvider: { name: 'tokenFile', config: { tokenFile } } }
    expect(await get(open({}, user))).toMatchObject({ status: 200 })
  })

  test('a KubeConfig with a client certificate is accepted', async () => {
    const { cert, key } = cluster().clientCertificate('somebody', ['system:masters'])
    expect(await get(open({}, { certData: base64(cert), keyData: base64(key) }))).toMatchObject({ status: 200 })
  })

  test('a KubeConfig that was loaded from text is accepted', async () => {
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

  test('a wrong certificate authority is not trusted', async () => {
    const { cert } = cluster().clientCertificate('somebody')
    const client = open({ caData: base64(cert) }, { token: cluster().adminToken })
    await expect(get(client)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })

  test('connections are kept alive between calls', async () => {
    const proxy = await startProxy(Number(new URL(cluster().url).port))
    onTestFinished(() => proxy.stop())
    const client = open({ server: `https://127.0.0.1:${proxy.port}` }, { token: cluster().adminToken })
    for (let i = 0; i < 5; i++) expect(await get(client)).toMatchObject({ status: 200 })
    expect(proxy.opened).toBe(1)
  })

  test('the proxy of the cluster is used', async () => {
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

  test('a plugin runs once for the lifetime of its token', async () => {
    const expirationTimestamp = new Date(Date.now() + 3_600_000).toISOString()
    const { exec, runs } = plugin(print({ token: cluster().adminToken, expirationTimestamp }))
    const client = open({}, { exec })
    const answers = await Promise.all([get(client), get(client), get(client)])
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(await get(client)).toMatchObject({ status: 200 })
    expect(runs()).toBe(1)
  })

  test('a certificate from a plugin is accepted', async () => {
    const { cert, key } = cluster().clientCertificate('somebody', ['system:masters'])
    const { exec } = plugin(print({ clientCertificateData: cert, clientKeyData: key }))
    expect(await get(open({}, { exec }))).toMatchObject({ status: 200 })
  })

  test('a plugin that hangs delays no call beyond its deadline, and is not started for each call', async () => {
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

  test('the error of a failing plugin is quoted, except for output that may contain its token', async () => {
    const failing = plugin(`console.error('log in first'); process.exitCode = 1`)
    await expect(get(open({}, { exec: failing.exec }))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: 'The KubeConfig provided no credentials: log in first',
      retryable: true,
    })
    const chatty = plugin(`console.log('s3cr3t')`)
    const failure: unknown = await get(open({}, { exec: chatty.exec })).catch((error: unknown) => error)
    expect(failure).toMatchObject({ message: 'The KubeConfig provided no credentials: its plugin did not print JSON.' })
    expect(failure).not.toHaveProperty('cause')
    const missing = open({}, { exec: { command: join(folder, 'none') } })
    await expect(get(missing)).rejects.toMatchObject({ message: expect.stringContaining('ENOENT') })
  })
})
