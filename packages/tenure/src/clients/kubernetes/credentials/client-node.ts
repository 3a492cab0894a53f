import type { Agent, RequestOptions } from 'node:https'
import type { Clock } from '../../../common/clock.ts'
import { systemClock } from '../../../common/clock.ts'
import { TenureError } from '../../../common/errors.ts'
import type { Credentials } from '../../http/credentials.ts'
import { checkMethods } from '../../../common/check-options.ts'
import { KubernetesClient } from '../client.ts'
import type { Connection, ConfiguredNamespace } from '../connection.ts'
import { messageOf } from '@tenure/internal/message'

/**
 * The part of a `KubeConfig` from `@kubernetes/client-node` that is used: its credentials. Calls do not go through it.
 */
export interface KubeConfigLike {
  getCurrentCluster(): { readonly server: string; readonly proxyUrl?: string | undefined } | null
  /** Adds the current user's credentials. May run a plugin. */
  applyToHTTPSOptions(options: RequestOptions): Promise<void>
  getCurrentContext?(): string
  getContextObject?(name: string): { readonly namespace?: string | undefined } | null
}

/** Added to every error about impersonation. */
export const noImpersonation =
  'Impersonation is not supported: use the credentials of a user that has the permissions itself.'

/** The package to install for this version of Node.js. The newest major version needs Node.js 22.19. */
export function clientNodePackage(nodeVersion: string): string {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number)
  const isOld = major < 22 || (major === 22 && minor < 19)
  return `@kubernetes/client-node${isOld ? '@1' : ''}`
}

const clients = new WeakMap<KubeConfigLike, KubernetesClient>()

/**
 * The API server that a `KubeConfig` from `@kubernetes/client-node` points to, with its credentials, including plugins.
 * Returns the same client for the same object, so that all users share connections.
 *
 * @example
 * const config = new KubeConfig()
 * config.loadFromDefault()
 * const client = fromClientNode(config)
 */
export function fromClientNode(config: KubeConfigLike): KubernetesClient {
  checkMethods(
    'client',
    config,
    ['getCurrentCluster', 'applyToHTTPSOptions'],
    'a KubeConfig from @kubernetes/client-node',
  )
  const server = serverOf(config)
  const known = clients.get(config)
  if (known?.server === server) return known
  const client = new KubernetesClient(clientNodeConnection(config, server))
  clients.set(config, client)
  return client
}

function serverOf(config: KubeConfigLike): string {
  const cluster = config.getCurrentCluster()
  if (cluster) return cluster.server
  const text = 'The KubeConfig has no current cluster. Call its loadFromDefault() or another of its load methods first.'
  throw new TenureError('BACKEND_UNAVAILABLE', text)
}

const pluginTimeoutMs = 60_000
const maxPluginRuns = 4

/** The credentials of a KubeConfig, for the cluster that it currently points to. */
export function clientNodeConnection(config: KubeConfigLike, server: string, clock: Clock = systemClock): Connection {
  let latest: { readonly answer: Promise<Credentials>; readonly startedMs: number } | undefined
  let runsInFlight = 0
  return {
    server,
    configuredNamespace: () => configuredNamespaceOf(config),
    // A plugin may hang and cannot be canceled from here. All calls wait for the same run. Another run starts after a
    // while, because the problem may have been resolved, but only a few run at a time.
    credentials() {
      checkServer(config, server)
      const startedMs = clock.monotonicMs()
      if (latest && (startedMs - latest.startedMs < pluginTimeoutMs || runsInFlight >= maxPluginRuns))
        return latest.answer
      runsInFlight++
      const answer = ask(config).finally(() => {
        runsInFlight--
        if (latest?.answer === answer) latest = undefined
      })
      latest = { answer, startedMs }
      return answer
    },
  }
}

/** Throws if the current cluster has changed: `setCurrentContext()` must not send one cluster's token to another. */
function checkServer(config: KubeConfigLike, server: string): void {
  if (config.getCurrentCluster()?.server === server) return
  const text = `The KubeConfig no longer points to ${server}. Use a separate KubeConfig for each cluster.`
  throw new TenureError('BACKEND_UNAVAILABLE', text)
}

function configuredNamespaceOf(config: KubeConfigLike): ConfiguredNamespace | undefined {
  const context = config.getCurrentContext?.() ?? ''
  const namespace = config.getContextObject?.(context)?.namespace
  if (!namespace) return undefined
  const description = `The context ${JSON.stringify(context)} of the KubeConfig has the namespace ${JSON.stringify(namespace)}.`
  return { namespace, description: description }
}

async function ask(config: KubeConfigLike): Promise<Credentials> {
  const options: RequestOptions = { headers: {} }
  const isProxied = Boolean(config.getCurrentCluster()?.proxyUrl)
  try {
    await config.applyToHTTPSOptions(options)
  } catch (cause) {
    throw explained(cause)
  }
  const { ca, cert, key, passphrase, pfx, rejectUnauthorized, servername } = options
  return {
    authorization: authorizationOf(options),
    tls: { ca, cert, key, passphrase, pfx, rejectUnauthorized, servername },
    // The KubeConfig creates a new agent each time, which would not reuse connections. Only a proxy needs it.
    agent: isProxied ? (options.agent as Agent) : undefined,
  }
}

function authorizationOf({ headers, auth }: RequestOptions): string | undefined {
  let authorization: string | undefined
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (name.toLowerCase() !== 'authorization') {
      const advice = /^impersonate-/i.test(name) ? noImpersonation : 'Only "authorization" is sent.'
      const text = `The KubeConfig adds the header ${name}, which is not supported here. ${advice}`
      throw new TenureError('BACKEND_UNAVAILABLE', text)
    }
    // A token from a file may end with a line break.
    if (typeof value === 'string') authorization = value.trim()
  }
  return authorization ?? (auth ? `Basic ${Buffer.from(auth).toString('base64')}` : undefined)
}

function explained(cause: unknown): TenureError {
  const text = 'The KubeConfig provided no credentials'
  // The original message would quote the plugin's output, which contains its token.
  if (cause instanceof SyntaxError) {
    return new TenureError('BACKEND_UNAVAILABLE', `${text}: its plugin did not print JSON.`, { retryable: true })
  }
  const description = messageOf(cause).replaceAll(/\s+/g, ' ').trim().slice(0, 300)
  return new TenureError('BACKEND_UNAVAILABLE', `${text}: ${description}`, { retryable: true, cause })
}
