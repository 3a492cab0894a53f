import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { describeWithCluster } from '../../../../test/servers/suite.ts'
import type { KubernetesClient } from '../../src/kubernetes/client.ts'
import { inCluster, serviceAccount } from '../../src/kubernetes/service-account.ts'
import { makeCertificate } from './certificate.ts'
import { answerOf, clientFor, serve } from './tls-server.ts'

const { signal } = new AbortController()

/** A folder that is filled as the kubelet does it: files are links through `..data`, which is swapped in one step. */
class Mount {
  readonly folder = mkdtempSync(join(tmpdir(), 'tenure-account-'))
  #versions = 0

  constructor(contents: Readonly<Record<string, string>>) {
    onTestFinished(() => rmSync(this.folder, { recursive: true }))
    this.replace(contents)
    for (const name of Object.keys(contents)) symlinkSync(join('..data', name), join(this.folder, name))
  }

  replace(contents: Readonly<Record<string, string>>): void {
    const version = `..2030_01_01_${++this.#versions}`
    mkdirSync(join(this.folder, version))
    for (const [name, text] of Object.entries(contents)) writeFileSync(join(this.folder, version, name), text)
    symlinkSync(version, join(this.folder, '..data_tmp'))
    renameSync(join(this.folder, '..data_tmp'), join(this.folder, '..data'))
    if (this.#versions > 1) rmSync(join(this.folder, `..2030_01_01_${this.#versions - 1}`), { recursive: true })
  }
}

describeWithCluster('a service account', (cluster) => {
  /** Whom the API server takes the client for. */
  const userOf = async (client: KubernetesClient) => {
    const answer = await client.request({
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
      signal,
    })
    if (answer.status !== 201) return answer.status
    return (answer.body as { status: { userInfo: { username: string } } }).status.userInfo.username
  }
  const tokenFor = async (name: string) => {
    const accounts = '/api/v1/namespaces/default/serviceaccounts'
    await cluster().admin.request('POST', accounts, { metadata: { name } })
    const asked = { spec: { expirationSeconds: 600 } }
    const { body } = await cluster().admin.request<{ status: { token: string } }>(
      'POST',
      `${accounts}/${name}/token`,
      asked,
    )
    return body.status.token
  }

  test('is known by the token that lies there when a call is made', async () => {
    const { url, ca, tokenOf } = cluster()
    const mount = new Mount({ token: tokenOf('restricted'), 'ca.crt': ca })
    const client = clientFor(serviceAccount(url, mount.folder))
    expect(await userOf(client)).toBe('restricted')
    // Tokens that the API server has signed, as those in a pod are; with the line break that an editor leaves.
    for (const name of ['robot', 'other-robot']) {
      mount.replace({ token: `${await tokenFor(name)}\n`, 'ca.crt': ca })
      expect(await userOf(client)).toBe(`system:serviceaccount:default:${name}`)
    }
    mount.replace({ token: 'no such token', 'ca.crt': ca })
    expect(await userOf(client)).toBe(401)
    mount.replace({ token: tokenOf('stranger'), 'ca.crt': ca })
    expect(await userOf(client)).toBe('stranger')
  })

  test('keeps its last token while the file is away or empty', async () => {
    const { url, ca, tokenOf } = cluster()
    const mount = new Mount({ token: tokenOf('restricted'), 'ca.crt': ca })
    const client = clientFor(serviceAccount(url, mount.folder))
    expect(await userOf(client)).toBe('restricted')
    truncateSync(join(mount.folder, 'token'))
    expect(await userOf(client)).toBe('restricted')
    mount.replace({})
    expect(await userOf(client)).toBe('restricted')
    mount.replace({ token: tokenOf('stranger'), 'ca.crt': ca })
    expect(await userOf(client)).toBe('stranger')
  })
})

test('an authority that is replaced holds from the next call on', async () => {
  const [first, second] = [makeCertificate(), makeCertificate()]
  const server = await serve(({ socket }) => socket.write(answerOf({})), { certificate: second })
  const mount = new Mount({ token: 'some', 'ca.crt': first.cert })
  const client = clientFor(serviceAccount(server.url, mount.folder))
  const call = () => client.request({ method: 'GET', path: '/a', signal })
  await expect(call()).rejects.toThrow(/certificate/)
  // While authorities change, a cluster gives out both.
  mount.replace({ token: 'some', 'ca.crt': first.cert + second.cert })
  expect((await call()).status).toBe(200)
})

test.each(['token', 'ca.crt'])('without the file %s, the call says which it is and what to look at', async (name) => {
  const contents = { token: 'some', 'ca.crt': makeCertificate().cert }
  for (const broken of [undefined, '', '\n']) {
    const mount = new Mount(contents)
    const files = Object.entries({ ...contents, [name]: broken }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    )
    mount.replace(Object.fromEntries(files))
    const client = clientFor(serviceAccount('https://127.0.0.1:1', mount.folder))
    const asked = client.request({ method: 'GET', path: '/a', signal })
    await expect(asked).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: `The service account's file ${join(mount.folder, name)} cannot be read. Does the pod set automountServiceAccountToken: false?`,
    })
  }
})

describe('inCluster()', () => {
  afterEach(() => vi.unstubAllEnvs())
  const inPod = (host: string | undefined, port?: string) => {
    vi.stubEnv('KUBERNETES_SERVICE_HOST', host)
    vi.stubEnv('KUBERNETES_SERVICE_PORT', port)
    return inCluster()
  }

  test.each([undefined, ''])('outside a pod says what is missing and what to use instead', (host) => {
    expect(() => inPod(host)).toThrow(
      expect.objectContaining({
        code: 'BACKEND_UNAVAILABLE',
        message: expect.stringMatching(
          /KUBERNETES_SERVICE_HOST is not set.*fromKubeConfig\(\).*@kubernetes\/client-node/,
        ) as string,
      }) as Error,
    )
  })

  test.each([
    ['10.0.0.1', '443', 'https://10.0.0.1:443'],
    ['10.0.0.1', undefined, 'https://10.0.0.1:443'],
    ['10.0.0.1', '', 'https://10.0.0.1:443'],
    ['fd00:10:96::1', '6443', 'https://[fd00:10:96::1]:6443'],
    ['kubernetes.default.svc', '443', 'https://kubernetes.default.svc:443'],
  ])('with host %s and port %s asks %s', (host, port, server) => {
    expect(inPod(host, port).server).toBe(server)
  })

  test('gives all callers one client, so that they share connections, and each server its own', () => {
    expect(inPod('10.0.0.1', '443')).toBe(inPod('10.0.0.1', '443'))
    expect(inPod('10.0.0.2', '443')).not.toBe(inPod('10.0.0.1', '443'))
  })
})
