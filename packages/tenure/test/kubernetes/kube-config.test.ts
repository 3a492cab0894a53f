import { existsSync, mkdtempSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { delimiter, join, relative } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { stringify } from 'yaml'
import { files } from '../../../../test/servers/kube-apiserver.ts'
import { describeWithCluster } from '../../../../test/servers/suite.ts'
import type { KubernetesClient } from '../../src/kubernetes/client.ts'
import { fromKubeConfig } from '../../src/kubernetes/kube-config.ts'

const folder = mkdtempSync(join(tmpdir(), 'tenure-kubeconfig-'))
afterAll(() => rmSync(folder, { recursive: true }))
afterEach(() => {
  vi.unstubAllEnvs()
})

const secret = 's3cr3t'
let written = 0

function write(content: string | Buffer, name = `file-${++written}`): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

const base64 = (text: string) => Buffer.from(text).toString('base64')

/** A kubeconfig in the layout of kubectl. */
function kubeConfig(cluster: object, user: object, more: object = {}): string {
  const config = {
    apiVersion: 'v1',
    clusters: [{ cluster, name: 'here' }],
    contexts: [
      { context: { cluster: 'here', namespace: 'jobs', user: 'me' }, name: 'me@here' },
      { context: { cluster: 'gone', user: 'me' }, name: 'me@gone' },
      { context: { cluster: 'here', user: 'gone' }, name: 'gone@here' },
      { context: { cluster: 'here' }, name: '@here' },
    ],
    'current-context': 'me@here',
    kind: 'Config',
    preferences: {},
    users: [{ name: 'me', user }],
    ...more,
  }
  return stringify(config, { indentSeq: false, lineWidth: 0, aliasDuplicateObjects: false })
}

const server = 'https://10.0.0.1:6443'
const plain = kubeConfig({ server }, { token: secret })

function failureOf(path: string | undefined, context?: string): Error & { code?: unknown } {
  try {
    fromKubeConfig(path, context)
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('it was taken')
}

describe('which file and context', () => {
  test('a path and a context can be named, and the current context is the default', () => {
    const other = {
      clusters: [
        { name: 'here', cluster: { server } },
        { name: 'gone', cluster: { server: `${server}1` } },
      ],
    }
    const path = write(kubeConfig({}, { token: secret }, other))
    expect(fromKubeConfig(path).server).toBe(server)
    expect(fromKubeConfig(path, 'me@gone').server).toBe(`${server}1`)
  })

  test('a path may be relative', () => {
    expect(fromKubeConfig(relative(process.cwd(), write(plain))).server).toBe(server)
  })

  test('the first file of KUBECONFIG is the default', () => {
    vi.stubEnv('KUBECONFIG', ['', write(plain), join(folder, 'none')].join(delimiter))
    expect(fromKubeConfig().server).toBe(server)
    const failure = failureOf(undefined, 'elsewhere')
    expect(failure.message).toContain('of the files in KUBECONFIG only the first is read')
  })

  test('without KUBECONFIG it is the one in the home folder', () => {
    vi.stubEnv('KUBECONFIG', undefined)
    const path = join(homedir(), '.kube', 'config')
    if (!existsSync(path)) expect(failureOf(undefined).message).toContain(path)
    // Whoever has one may have any.
    else expect(() => fromKubeConfig(undefined, 'no such context')).toThrow(path)
  })

  test('JSON is taken too', () => {
    const config = {
      clusters: [{ name: 'a', cluster: { server } }],
      contexts: [{ name: 'c', context: { cluster: 'a', user: 'b' } }],
      users: [{ name: 'b', user: { token: secret } }],
      'current-context': 'c',
    }
    expect(fromKubeConfig(write(JSON.stringify(config, null, '\t'))).server).toBe(server)
  })
})

describe('what is wrong is told', () => {
  test('a missing file', () => {
    const path = join(folder, 'none')
    expect(failureOf(path)).toMatchObject({ code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining(path) })
    expect(failureOf(path).message).toContain('set KUBECONFIG; in a pod use inCluster()')
  })

  test('a file that cannot be read', () => {
    expect(failureOf(folder).message).toContain(`The kubeconfig ${folder} cannot be read.`)
  })

  test('broken YAML, with its line', () => {
    const path = write(`apiVersion: v1\nusers:\n- name: me\n  user: &me\n    token: ${secret}\n`)
    const failure = failureOf(path)
    expect(failure).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(failure.message).toBe(
      `The kubeconfig ${path} is not understood, line 4: it has an anchor. \`kubectl config view --raw --flatten\` writes it plainly.`,
    )
  })

  test('a file that is no kubeconfig', () => {
    for (const text of ['', '- a\n- b\n', 'null: b', '{}']) expect(failureOf(write(text)).message).toContain(folder)
  })

  test('a context that is not there, with those that are', () => {
    const path = write(plain)
    const failure = failureOf(path, 'you@here')
    expect(failure).toBeInstanceOf(TypeError)
    expect(failure.code).toBe('INVALID_OPTION')
    expect(failure.message).toBe(
      `Option "context" is "you@here", but it must be one of the contexts of ${path}, which are: "me@here", "me@gone", "gone@here", "@here".`,
    )
  })

  test('a current-context that is not there, or not set', () => {
    const gone = failureOf(write(kubeConfig({ server }, { token: secret }, { 'current-context': 'x' }))).message
    expect(gone).toContain('is "x", which is not there. Pass to fromKubeConfig() one of the contexts')
    expect(gone).toContain('"me@here", "me@gone"')
    const unset = failureOf(write(kubeConfig({ server }, { token: secret }, { 'current-context': '' }))).message
    expect(unset).toContain('is not set. Pass to fromKubeConfig() one of the contexts')
    expect(failureOf(write('kind: Config')).message).toContain('which are: none')
  })

  test('a cluster or a user that is not there', () => {
    const path = write(plain)
    expect(failureOf(path, 'me@gone').message).toBe(`${path} has no cluster "gone", which its context names.`)
    expect(failureOf(path, 'gone@here').message).toBe(`${path} has no user "gone", which its context names.`)
    expect(failureOf(path, '@here').message).toBe(`The context "@here" of ${path} names no user.`)
  })

  test('wrong arguments', () => {
    for (const wrong of ['', 7, null, {}]) {
      expect(() => Reflect.apply(fromKubeConfig, undefined, [wrong])).toThrow('Option "path"')
      expect(() => Reflect.apply(fromKubeConfig, undefined, [write(plain), wrong])).toThrow('Option "context"')
    }
  })

  const elsewhere = 'Pass a KubeConfig of @kubernetes/client-node as the client instead.'
  const login = { token: secret }
  test.each<[string, object, object, string]>([
    ['a plugin', { server }, { exec: { command: 'aws', args: [secret] } }, elsewhere],
    ['an auth-provider', { server }, { 'auth-provider': { name: 'oidc', config: { token: secret } } }, elsewhere],
    ['a user name', { server }, { username: secret }, 'API servers take no passwords'],
    ['a password', { server }, { password: secret }, 'API servers take no passwords'],
    ['a proxy', { server, 'proxy-url': `http://u:${secret}@proxy` }, login, elsewhere],
    ['impersonation', { server }, { ...login, as: 'you' }, 'Nobody is impersonated here'],
    ['impersonation of groups', { server }, { ...login, 'as-groups': ['you'] }, 'Nobody is impersonated here'],
    ['no server', {}, login, 'names no server'],
    ['a server in the clear', { server: 'http://10.0.0.1' }, login, 'no https: address'],
    ['a server that is no address', { server: `nonsense ${secret}` }, login, 'no https: address'],
    ['a server with a password', { server: `https://u:${secret}@host` }, login, 'a password does not belong there'],
    ['a user without credentials', { server }, { 'token-file': 'x' }, 'neither a token nor a client certificate'],
    ['an authority that is no base64', { server, 'certificate-authority-data': '*' }, login, 'is no base64'],
    [
      'an authority that is no PEM',
      { server, 'certificate-authority-data': base64(secret) },
      login,
      'no certificate in PEM',
    ],
    [
      'an authority that is not there',
      { server, 'certificate-authority': 'none.crt' },
      login,
      join(folder, 'none.crt'),
    ],
    ['a token file that is not there', { server }, { tokenFile: 'none' }, join(folder, 'none')],
    ['a certificate without a key', { server }, { 'client-certificate-data': base64(secret) }, 'belong together'],
    ['a key without a certificate', { server }, { 'client-key-data': base64(secret) }, 'belong together'],
    [
      'a certificate that is none',
      { server },
      { 'client-certificate-data': base64(secret), 'client-key-data': base64(secret) },
      'that do not work',
    ],
    [
      'an authority that is not to be asked',
      { server, 'certificate-authority-data': base64(secret), 'insecure-skip-tls-verify': true },
      login,
      'remove one of both',
    ],
    ['a flag that is none', { server, 'insecure-skip-tls-verify': 'yes' }, login, 'neither true nor false'],
    ['a token that is no text', { server }, { token: [secret] }, 'no text'],
    ['users that are no list', { server }, login, 'users that are no list'],
    ['a user that is there twice', { server }, login, 'more than one user "me"'],
  ])('%s', (what, cluster, user, expected) => {
    const more: Record<string, object> = {
      'users that are no list': { users: { me: user } },
      'a user that is there twice': { users: [1, 2].map(() => ({ name: 'me', user })) },
    }
    const path = write(kubeConfig(cluster, user, more[what]))
    const failure = failureOf(path)
    expect(failure).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: false })
    expect(failure.message).toContain(expected)
    expect(failure.message).toContain(path)
    const shown = `${failure.message} ${String(failure.cause)}`
    for (const hidden of [secret, base64(secret)]) expect(shown).not.toContain(hidden)
  })

  test('empty settings are none', () => {
    const cluster = { server, 'proxy-url': '', 'certificate-authority': '' }
    const user = { token: secret, exec: null, 'auth-provider': {}, username: '', as: '', 'as-groups': [] }
    expect(fromKubeConfig(write(kubeConfig(cluster, user))).server).toBe(server)
  })
})

describeWithCluster('calls with what a kubeconfig holds', (cluster) => {
  const path = '/apis/coordination.k8s.io/v1/namespaces/default/leases/seen'
  const clients: KubernetesClient[] = []
  afterEach(() => {
    for (const client of clients.splice(0)) client.close()
  })

  beforeAll(async () => {
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'seen' } }
    const { status } = await cluster().admin.request('POST', path.replace('/seen', ''), lease)
    expect(status).toBe(201)
  })

  const open = (clusterPart: object, user: object) => {
    const client = fromKubeConfig(write(kubeConfig({ server: cluster().url, ...clusterPart }, user)))
    clients.push(client)
    return client
  }
  const get = async (client: KubernetesClient) =>
    (await client.request({ method: 'GET', path, signal: new AbortController().signal })).status
  const trusted = () => ({ 'certificate-authority-data': base64(cluster().ca) })
  const admin = () => ({ token: cluster().adminToken })

  test('a token, and an authority as data', async () => {
    const client = open(trusted(), admin())
    const answer = await client.request({ method: 'GET', path, signal: new AbortController().signal })
    expect(answer).toMatchObject({ status: 200, body: { kind: 'Lease', metadata: { name: 'seen' } } })
  })

  test('an authority as a file, relative to the kubeconfig', async () => {
    write(cluster().ca, 'ca.crt')
    expect(await get(open({ 'certificate-authority': 'ca.crt' }, admin()))).toBe(200)
  })

  test('data that is wrapped', async () => {
    const wrapped = base64(cluster().ca).replaceAll(/.{64}/g, '$&\n')
    const text = kubeConfig({ server: cluster().url, 'certificate-authority-data': wrapped }, admin())
    expect(text).toMatch(/certificate-authority-data: [|>]/)
    expect(await get(fromKubeConfig(write(text)))).toBe(200)
  })

  test('a wrong authority, and none, are not trusted', async () => {
    const { cert } = cluster().clientCertificate('somebody')
    const other = { 'certificate-authority': join(cluster().directory, files.clientCa) }
    for (const trust of [other, { 'certificate-authority-data': base64(cert) }, {}]) {
      await expect(get(open(trust, admin()))).rejects.toMatchObject({
        code: 'BACKEND_UNAVAILABLE',
        message: expect.stringMatching(/certificate/),
      })
    }
  })

  test('a server that is not to be verified', async () => {
    expect(await get(open({ 'insecure-skip-tls-verify': true }, admin()))).toBe(200)
  })

  test('a name that the certificate must carry', async () => {
    expect(await get(open({ ...trusted(), 'tls-server-name': 'kubernetes.default.svc' }, admin()))).toBe(200)
    await expect(get(open({ ...trusted(), 'tls-server-name': 'other.example' }, admin()))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('other.example'),
    })
  })

  test('a wrong token is not let in', async () => {
    expect(await get(open(trusted(), { token: 'wrong' }))).toBe(401)
  })

  test('a token file is read anew, and what it held last counts while it is gone or empty', async () => {
    const file = write(`${cluster().adminToken}\n`, 'token')
    const client = open(trusted(), { tokenFile: 'token' })
    expect(await get(client)).toBe(200)
    writeFileSync(file, '')
    expect(await get(client)).toBe(200)
    unlinkSync(file)
    expect(await get(client)).toBe(200)
    writeFileSync(file, cluster().tokenOf('stranger'))
    expect(await get(client)).toBe(403)
    writeFileSync(file, cluster().adminToken)
    expect(await get(client)).toBe(200)
  })

  test('a token file counts for more than a token, which helps out until the file is there', async () => {
    const client = open(trusted(), { token: cluster().adminToken, tokenFile: 'later' })
    expect(await get(client)).toBe(200)
    write(cluster().tokenOf('stranger'), 'later')
    expect(await get(client)).toBe(403)
  })

  test('a client certificate as data', async () => {
    const { cert, key } = cluster().clientCertificate('somebody', ['system:masters'])
    const user = { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) }
    expect(await get(open(trusted(), user))).toBe(200)
  })

  test('a client certificate as files, which are read anew, both or none', async () => {
    const before = cluster().clientCertificate('somebody', ['system:masters'])
    const after = cluster().clientCertificate('somebody else')
    const cert = write(before.cert, 'client.crt')
    const key = write(before.key, 'client.key')
    const client = open(trusted(), { 'client-certificate': 'client.crt', 'client-key': key })
    expect(await get(client)).toBe(200)
    writeFileSync(cert, after.cert)
    expect(await get(client)).toBe(200)
    writeFileSync(key, after.key)
    expect(await get(client)).toBe(403)
  })

  test('a certificate with the key of another is refused at once', () => {
    const { cert } = cluster().clientCertificate('somebody')
    const { key } = cluster().clientCertificate('somebody else')
    const user = { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) }
    expect(() => open(trusted(), user)).toThrow('has a client-certificate and a client-key that do not work')
  })
})
