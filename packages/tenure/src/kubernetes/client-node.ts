import type { Agent, RequestOptions } from 'node:https'
import type { Clock } from '../clock.ts'
import { systemClock } from '../clock.ts'
import { TenureError } from '../errors.ts'
import type { Credentials } from '../http/credentials.ts'
import { checkMethods } from '../options.ts'
import { KubernetesClient } from './client.ts'
import type { Connection } from './connection.ts'

/** What is needed of a `KubeConfig` of `@kubernetes/client-node`: its credentials. The calls are made without it. */
export interface KubeConfigLike {
  getCurrentCluster(): { readonly server: string; readonly proxyUrl?: string | undefined } | null
  /** Adds the current user's credentials. May run a plugin. */
  applyToHTTPSOptions(options: RequestOptions): Promise<void>
}

const clients = new WeakMap<KubeConfigLike, KubernetesClient>()

/**
 * The API server that a `KubeConfig` of `@kubernetes/client-node` points to, with its credentials, plugins included.
 * One object always gives the same client, so that all who use it share connections.
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
    'a KubeConfig of @kubernetes/client-node',
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

const patienceMs = 60_000
const mostUnderWay = 4

/** The credentials of a KubeConfig, for the cluster that it points to now. */
export function clientNodeConnection(config: KubeConfigLike, server: string, clock: Clock = systemClock): Connection {
  let latest: { readonly answer: Promise<Credentials>; readonly startedMs: number } | undefined
  let underWay = 0
  return {
    server,
    // Plugins hang, and cannot be ended from here. All calls wait for the same one; another is tried after a while,
    // because the reason of the first may be gone, and never more than a few.
    credentials() {
      checkServer(config, server)
      const startedMs = clock.monotonicMs()
      if (latest && (startedMs - latest.startedMs < patienceMs || underWay >= mostUnderWay)) return latest.answer
      underWay++
      const answer = ask(config).finally(() => {
        underWay--
        if (latest?.answer === answer) latest = undefined
      })
      latest = { answer, startedMs }
      return answer
    },
  }
}

/** `setCurrentContext()` must not bring one cluster's token to another. */
function checkServer(config: KubeConfigLike, server: string): void {
  if (config.getCurrentCluster()?.server === server) return
  const text = `The KubeConfig no longer points to ${server}. Use a KubeConfig of its own for each cluster.`
  throw new TenureError('BACKEND_UNAVAILABLE', text)
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
    // Its own agent is a new one each time: connections would not be kept. Only that one knows the way by the proxy.
    agent: isProxied ? (options.agent as Agent) : undefined,
  }
}

function authorizationOf({ headers, auth }: RequestOptions): string | undefined {
  let authorization: string | undefined
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (name.toLowerCase() !== 'authorization') {
      const text = `The KubeConfig adds the header ${name}, which is not sent here. Nobody is impersonated: use a user who has the rights itself.`
      throw new TenureError('BACKEND_UNAVAILABLE', text)
    }
    // A token from a file may end with a line break.
    if (typeof value === 'string') authorization = value.trim()
  }
  return authorization ?? (auth ? `Basic ${Buffer.from(auth).toString('base64')}` : undefined)
}

function explained(cause: unknown): TenureError {
  const text = 'The KubeConfig gave no credentials'
  // The message quotes what the plugin printed, which is where its token stands.
  if (cause instanceof SyntaxError) {
    return new TenureError('BACKEND_UNAVAILABLE', `${text}: its plugin printed no JSON.`, { retryable: true })
  }
  const said = (cause instanceof Error ? cause.message : String(cause)).replaceAll(/\s+/g, ' ').trim().slice(0, 300)
  return new TenureError('BACKEND_UNAVAILABLE', `${text}: ${said}`, { retryable: true, cause })
}
