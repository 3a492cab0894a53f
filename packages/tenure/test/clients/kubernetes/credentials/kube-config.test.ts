import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join, relative } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { fromKubeConfig } from '../../../../src/clients/kubernetes/credentials/kube-config.ts'
import { folderOfFiles, kubeConfig, base64 } from './kube-config-file.ts'

const { folder, write } = folderOfFiles()
afterEach(() => {
  vi.unstubAllEnvs()
})

const secret = 's3cr3t'
const server = 'https://10.0.0.1:6443'
const plain = kubeConfig({ server }, { token: secret })

function failureOf(path: string | undefined, context?: string): Error & { code?: unknown } {
  try {
    fromKubeConfig(path, context)
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('the kubeconfig was accepted')
}

describe('fromKubeConfig: file and context', () => {
  test('fromKubeConfig accepts a path and a context, and defaults to the current context', () => {
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

  test('fromKubeConfig accepts a relative path', () => {
    expect(fromKubeConfig(relative(process.cwd(), write(plain))).server).toBe(server)
  })

  test('fromKubeConfig defaults to the first file in KUBECONFIG', () => {
    vi.stubEnv('KUBECONFIG', ['', write(plain), join(folder, 'none')].join(delimiter))
    expect(fromKubeConfig().server).toBe(server)
    const failure = failureOf(undefined, 'elsewhere')
    expect(failure.message).toContain('only the first file in KUBECONFIG is read')
  })

  test('fromKubeConfig defaults to the file in the home directory if KUBECONFIG is not set', () => {
    vi.stubEnv('KUBECONFIG', undefined)
    const path = join(homedir(), '.kube', 'config')
    if (!existsSync(path)) expect(failureOf(undefined).message).toContain(path)
    // If there is such a file, its contexts are unknown.
    else expect(() => fromKubeConfig(undefined, 'no such context')).toThrow(path)
  })

  test('fromKubeConfig accepts JSON', () => {
    const config = {
      clusters: [{ name: 'a', cluster: { server } }],
      contexts: [{ name: 'c', context: { cluster: 'a', user: 'b' } }],
      users: [{ name: 'b', user: { token: secret } }],
      'current-context': 'c',
    }
    expect(fromKubeConfig(write(JSON.stringify(config, null, '\t'))).server).toBe(server)
  })
})

describe('errors from fromKubeConfig', () => {
  test('fromKubeConfig reports a missing file', () => {
    const path = join(folder, 'none')
    expect(failureOf(path)).toMatchObject({ code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining(path) })
    expect(failureOf(path).message).toContain('set KUBECONFIG. In a pod, use inCluster()')
  })

  test('fromKubeConfig reports an unreadable file', () => {
    expect(failureOf(folder).message).toContain(`The kubeconfig ${folder} cannot be read.`)
  })

  test('fromKubeConfig reports invalid YAML with its line', () => {
    const path = write(`apiVersion: v1\nusers:\n- name: me\n  user: &me\n    token: ${secret}\n`)
    const failure = failureOf(path)
    expect(failure).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(failure.message).toBe(
      `The kubeconfig ${path} cannot be parsed, line 4: it contains an anchor. \`kubectl config view --raw --flatten\` converts it to plain YAML.`,
    )
  })

  test('fromKubeConfig reports a file that is not a kubeconfig', () => {
    for (const text of ['', '- a\n- b\n', 'null: b', '{}']) expect(failureOf(write(text)).message).toContain(folder)
  })

  test('fromKubeConfig reports an unknown context and lists the known ones', () => {
    const path = write(plain)
    const failure = failureOf(path, 'you@here')
    expect(failure).toBeInstanceOf(TypeError)
    expect(failure.code).toBe('INVALID_OPTION')
    expect(failure.message).toBe(
      `Option "context" is "you@here", but it must be one of the contexts of ${path}: "me@here", "me@gone", "gone@here", "@here".`,
    )
  })

  test('fromKubeConfig reports a current-context that does not exist or is not set', () => {
    const gone = failureOf(write(kubeConfig({ server }, { token: secret }, { 'current-context': 'x' }))).message
    expect(gone).toContain('is "x", which does not exist. Pass fromKubeConfig() one of the contexts')
    expect(gone).toContain('"me@here", "me@gone"')
    const unset = failureOf(write(kubeConfig({ server }, { token: secret }, { 'current-context': '' }))).message
    expect(unset).toContain('is not set. Pass fromKubeConfig() one of the contexts')
    expect(failureOf(write('kind: Config')).message).toContain(': none')
  })

  test('fromKubeConfig reports an unknown cluster or user', () => {
    const path = write(plain)
    expect(failureOf(path, 'me@gone').message).toBe(`${path} has no cluster "gone", which its context refers to.`)
    expect(failureOf(path, 'gone@here').message).toBe(`${path} has no user "gone", which its context refers to.`)
    expect(failureOf(path, '@here').message).toBe(`The context "@here" of ${path} names no user.`)
  })

  test('fromKubeConfig refuses invalid arguments', () => {
    for (const wrong of ['', 7, null, {}]) {
      expect(() => Reflect.apply(fromKubeConfig, undefined, [wrong])).toThrow('Option "path"')
      expect(() => Reflect.apply(fromKubeConfig, undefined, [write(plain), wrong])).toThrow('Option "context"')
    }
  })

  const elsewhere = 'Pass a KubeConfig from @kubernetes/client-node as the client instead (npm install @kubernetes/'
  const login = { token: secret }
  test.each<[string, object, object, string]>([
    ['a plugin', { server }, { exec: { command: 'aws', args: [secret] } }, elsewhere],
    ['an auth-provider', { server }, { 'auth-provider': { name: 'oidc', config: { token: secret } } }, elsewhere],
    ['a user name', { server }, { username: secret }, 'API servers do not accept passwords'],
    ['a password', { server }, { password: secret }, 'API servers do not accept passwords'],
    ['a proxy', { server, 'proxy-url': `http://u:${secret}@proxy` }, login, elsewhere],
    ['impersonation', { server }, { ...login, as: 'you' }, 'Impersonation is not supported'],
    ['impersonation of groups', { server }, { ...login, 'as-groups': ['you'] }, 'Impersonation is not supported'],
    ['no server', {}, login, 'has no server'],
    ['an unencrypted server', { server: 'http://10.0.0.1' }, login, 'not an https: URL'],
    ['a server that is not a URL', { server: `nonsense ${secret}` }, login, 'not an https: URL'],
    ['a server with a password', { server: `https://u:${secret}@host` }, login, 'user, password, query or fragment'],
    ['a user without credentials', { server }, { 'token-file': 'x' }, 'neither a token nor a client certificate'],
    [
      'a certificate authority that is not base64',
      { server, 'certificate-authority-data': '*' },
      login,
      'is not base64',
    ],
    [
      'a certificate authority that is not PEM',
      { server, 'certificate-authority-data': base64(secret) },
      login,
      'not a PEM certificate',
    ],
    [
      'a missing certificate authority file',
      { server, 'certificate-authority': 'none.crt' },
      login,
      join(folder, 'none.crt'),
    ],
    ['a missing token file', { server }, { tokenFile: 'none' }, join(folder, 'none')],
    ['a certificate without a key', { server }, { 'client-certificate-data': base64(secret) }, 'both are required'],
    ['a key without a certificate', { server }, { 'client-key-data': base64(secret) }, 'both are required'],
    [
      'an invalid client certificate',
      { server },
      { 'client-certificate-data': base64(secret), 'client-key-data': base64(secret) },
      'that cannot be used together',
    ],
    [
      'a certificate authority with verification disabled',
      { server, 'certificate-authority-data': base64(secret), 'insecure-skip-tls-verify': true },
      login,
      'remove one of the two',
    ],
    ['an invalid flag', { server, 'insecure-skip-tls-verify': 'yes' }, login, 'not a boolean'],
    ['a token that is not a string', { server }, { token: [secret] }, 'not a string'],
    ['users that are not a list', { server }, login, 'a users field that is not a list'],
    ['a duplicate user', { server }, login, 'more than one user "me"'],
  ])('fromKubeConfig refuses %s without showing a secret', (what, cluster, user, expected) => {
    const more: Record<string, object> = {
      'users that are not a list': { users: { me: user } },
      'a duplicate user': { users: [1, 2].map(() => ({ name: 'me', user })) },
    }
    const path = write(kubeConfig(cluster, user, more[what]))
    const failure = failureOf(path)
    expect(failure).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: false })
    expect(failure.message).toContain(expected)
    expect(failure.message).toContain(path)
    const shown = `${failure.message} ${String(failure.cause)}`
    for (const hidden of [secret, base64(secret)]) expect(shown).not.toContain(hidden)
  })

  test('fromKubeConfig ignores empty settings', () => {
    const cluster = { server, 'proxy-url': '', 'certificate-authority': '' }
    const user = { token: secret, exec: null, 'auth-provider': {}, username: '', as: '', 'as-groups': [] }
    expect(fromKubeConfig(write(kubeConfig(cluster, user))).server).toBe(server)
  })
})
