import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join, relative } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { fromKubeConfig } from '../../../src/kubernetes/credentials/kube-config.ts'
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
      `The kubeconfig ${path} is not understood, line 4: it has an anchor. \`kubectl config view --raw --flatten\` writes it in plain YAML.`,
    )
  })

  test('a file that is not a kubeconfig', () => {
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

  const elsewhere = 'Pass a KubeConfig of @kubernetes/client-node as the client instead (npm install @kubernetes/'
  const login = { token: secret }
  test.each<[string, object, object, string]>([
    ['a plugin', { server }, { exec: { command: 'aws', args: [secret] } }, elsewhere],
    ['an auth-provider', { server }, { 'auth-provider': { name: 'oidc', config: { token: secret } } }, elsewhere],
    ['a user name', { server }, { username: secret }, 'API servers take no passwords'],
    ['a password', { server }, { password: secret }, 'API servers take no passwords'],
    ['a proxy', { server, 'proxy-url': `http://u:${secret}@proxy` }, login, elsewhere],
    ['impersonation', { server }, { ...login, as: 'you' }, 'Impersonation is not supported'],
    ['impersonation of groups', { server }, { ...login, 'as-groups': ['you'] }, 'Impersonation is not supported'],
    ['no server', {}, login, 'names no server'],
    ['a server in the clear', { server: 'http://10.0.0.1' }, login, 'not an https: address'],
    ['a server that is not an address', { server: `nonsense ${secret}` }, login, 'not an https: address'],
    ['a server with a password', { server: `https://u:${secret}@host` }, login, 'a password does not belong there'],
    ['a user without credentials', { server }, { 'token-file': 'x' }, 'neither a token nor a client certificate'],
    ['an authority that is not base64', { server, 'certificate-authority-data': '*' }, login, 'is not base64'],
    [
      'an authority that is not PEM',
      { server, 'certificate-authority-data': base64(secret) },
      login,
      'not a certificate in PEM',
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
      'remove one of the two',
    ],
    ['a flag that is none', { server, 'insecure-skip-tls-verify': 'yes' }, login, 'neither true nor false'],
    ['a token that is not text', { server }, { token: [secret] }, 'not text'],
    ['users that are not a list', { server }, login, 'users that are not a list'],
    ['a user that is there twice', { server }, login, 'more than one user "me"'],
  ])('%s', (what, cluster, user, expected) => {
    const more: Record<string, object> = {
      'users that are not a list': { users: { me: user } },
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
