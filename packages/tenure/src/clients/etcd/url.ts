import { environmentFile, environmentTls, type Environment } from '../http/environment.ts'
import type { EtcdCredentials } from './client.ts'

/** A parsed URL such as `etcd://user:password@host:2379,host:2379/prefix`. */
export interface EtcdAddress extends EtcdCredentials {
  readonly endpoints: readonly string[]
  readonly prefix?: string | undefined
}

/** The required form of a URL. */
export const etcdUrlRule =
  'it must be "etcd://host:2379,host:2379/prefix" ("etcds://" for TLS), percent-encoded and without a query'

/**
 * Parses the URL of a cluster. Undefined if it is invalid. If the URL has no user or password, they come from the
 * environment: TENURE_STORE_USER, and TENURE_STORE_PASSWORD or the file in TENURE_STORE_PASSWORD_FILE.
 */
export function etcdAddressOf(url: string, environment: Environment): EtcdAddress | undefined {
  const parts = /^etcd(s?):\/\/(?:([^@/]*)@)?([^/?#@]+)(?:\/([^?#@]*))?$/i.exec(url)
  if (!parts) return undefined
  const [, secure, login, hosts = '', prefix] = parts
  const scheme = secure ? 'https' : 'http'
  try {
    const [user, password] = (login?.split(/:(.*)/s, 2) ?? []).map(decodeURIComponent)
    const named = { user: user || undefined, password: password || undefined }
    return {
      endpoints: hosts.split(',').map((host) => `${scheme}://${host}`),
      prefix: prefix ? decodeURIComponent(prefix) : undefined,
      ...withEnvironment(named, environment),
      ...(secure && environmentTls(environment)),
    }
  } catch {
    // The URL has an incomplete percent-encoding.
    return undefined
  }
}

function withEnvironment({ user, password }: EtcdCredentials, environment: Environment): EtcdCredentials {
  const given = user ?? (environment['TENURE_STORE_USER'] || undefined)
  // Without a user, a password from the environment is ignored, because the server has authentication disabled.
  if (given === undefined) return { password }
  const file = environmentFile(environment, 'TENURE_STORE_PASSWORD_FILE')
  const kept = environment['TENURE_STORE_PASSWORD'] || (file && (() => file().replace(/\r?\n$/, '')))
  return { user: given, password: password ?? kept }
}
