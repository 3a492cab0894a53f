import { X509Certificate } from 'node:crypto'
import { homedir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { invalidOption } from '../../../common/errors.ts'
import { noImpersonation } from './client-node.ts'
import { KubernetesClient } from '../client.ts'
import type { Connection } from '../connection.ts'
import { credentialFile } from '../../http/credential-file.ts'
import { KubeConfigFile, type Section } from './kube-config-file.ts'

/**
 * The API server that a kubeconfig names, with the credentials in it: a token, or a client certificate. Token and
 * certificate files are read again before each call. Plugins are not run: for those, pass a `KubeConfig` of
 * `@kubernetes/client-node` as the client. Needs the optional package `yaml`.
 *
 * @param path Default: the first file in the environment variable KUBECONFIG, or `~/.kube/config` if it is not set.
 * @param context Default: the file's `current-context`.
 *
 * @example
 * const client = fromKubeConfig()
 * const store = kubernetesStore({ client, namespace: 'jobs' })
 */
export function fromKubeConfig(path?: string, context?: string): KubernetesClient {
  checkText('path', path)
  checkText('context', context)
  const listed = path === undefined ? (process.env['KUBECONFIG'] ?? '').split(delimiter).filter(Boolean) : []
  const file = new KubeConfigFile(resolve(path ?? listed[0] ?? join(homedir(), '.kube', 'config')), listed.length > 1)
  return new KubernetesClient(connectionTo(file, context))
}

function checkText(option: string, value: unknown): void {
  if (value === undefined || (typeof value === 'string' && value !== '')) return
  throw invalidOption(option, value, 'it must be a non-empty string, or omitted')
}

function connectionTo(file: KubeConfigFile, contextName: string | undefined): Connection {
  const context = file.context(contextName)
  const cluster = file.entry('cluster', context)
  const user = file.entry('user', context)
  cluster.refuse('proxy-url')
  for (const key of ['exec', 'auth-provider']) user.refuse(key)
  for (const key of ['username', 'password']) {
    user.refuse(key, 'API servers do not accept passwords: use a token or a client certificate.')
  }
  for (const key of ['as', 'as-uid', 'as-groups', 'as-user-extra']) {
    user.refuse(key, noImpersonation)
  }
  const server = serverOf(cluster)
  const trust = trustOf(cluster)
  const authorization = authorizationOf(user)
  const identity = identityOf(user)
  const namespace = context.text('namespace')
  if (!authorization && !identity) user.fail('has neither a token nor a client certificate')
  return {
    server,
    credentials: () => ({ authorization: authorization?.(), tls: { ...trust(), ...identity?.() } }),
    ...(namespace !== undefined && {
      configuredNamespace: () => ({ namespace, description: context.says('namespace', namespace) }),
    }),
  }
}

function serverOf(cluster: Section): string {
  const server = cluster.text('server') ?? cluster.fail('has no server')
  const address = URL.canParse(server) ? new URL(server) : undefined
  // A token must not cross a network unencrypted.
  if (address?.protocol !== 'https:') cluster.fail('has a server that is not an https: URL')
  // Messages show the address, so it must not contain secrets.
  if (address.username || address.password || address.search || address.hash) {
    cluster.fail('has a server URL with a user, password, query or fragment, which is not allowed')
  }
  return server
}

function trustOf(cluster: Section) {
  const servername = cluster.text('tls-server-name')
  const ca = pem(cluster, 'certificate-authority')
  const insecure = cluster.flag('insecure-skip-tls-verify')
  if (insecure && ca) cluster.fail('has a certificate authority but disables verification; remove one of the two')
  const first = ca?.()
  if (first !== undefined) {
    cluster.attempt('has a certificate authority that is not a PEM certificate', () => new X509Certificate(first))
  }
  return () => ({
    ...(ca && { ca: ca() }),
    ...(insecure && { rejectUnauthorized: false }),
    ...(servername !== undefined && { servername }),
  })
}

/**
 * The token file takes precedence, because the inline token is a copy of the file from when the kubeconfig was written.
 */
function authorizationOf(user: Section): (() => string) | undefined {
  const token = user.text('token')
  const path = user.text('tokenFile')
  if (path === undefined) return token === undefined ? undefined : () => `Bearer ${token.trim()}`
  const read = fileOf(user, 'tokenFile', path, token)
  read()
  return () => `Bearer ${read().trim()}`
}

function identityOf(user: Section) {
  const cert = pem(user, 'client-certificate')
  const key = pem(user, 'client-key')
  if (!cert && !key) return undefined
  if (!cert || !key) user.fail('has only one of client-certificate and client-key: both are required')
  const read = () => ({ cert: cert(), key: key() })
  let usable = read()
  user.attempt('has a client-certificate and a client-key that cannot be used together', () =>
    createSecureContext(usable),
  )
  return () => {
    const now = read()
    if (now.cert === usable.cert && now.key === usable.key) return usable
    try {
      createSecureContext(now)
      usable = now
    } catch {
      // Only one of the two files has been replaced so far, so they do not match. Keep the old pair.
    }
    return usable
  }
}

/** The content of `<key>-data`, or of the file in `<key>`. Undefined if there is neither. */
function pem(section: Section, key: string): (() => string) | undefined {
  const data = section.text(`${key}-data`)?.replaceAll(/\s/g, '')
  if (data !== undefined) {
    if (!/^[A-Za-z\d+/]+={0,2}$/.test(data)) section.fail(`has ${key}-data that is not base64`)
    const text = Buffer.from(data, 'base64').toString()
    return () => text
  }
  const path = section.text(key)
  return path === undefined ? undefined : fileOf(section, key, path)
}

function fileOf(section: Section, key: string, path: string, first?: string): () => string {
  const absolute = resolve(dirname(section.path), path)
  return credentialFile(
    absolute,
    (cause) => section.problem(`has the ${key} ${absolute}, which cannot be read`, cause),
    first,
  )
}
