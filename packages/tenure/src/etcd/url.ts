import { environmentFile, environmentTls, type Environment } from '../http/environment.ts'
import type { EtcdCredentials } from './client.ts'

/** What an address such as `etcd://user:password@host:2379,host:2379/prefix` names. */
export interface EtcdAddress extends EtcdCredentials {
  readonly endpoints: readonly string[]
  readonly prefix?: string | undefined
}

/** What is named where the address is wrong. */
export const etcdUrlRule =
  'it must be "etcd://host:2379,host:2379/prefix", or "etcds://" for TLS, percent-encoded and without a query'

/**
 * Reads the address of a cluster; undefined if it is not one. User and password that it does not name are those of the
 * environment: TENURE_STORE_USER, and TENURE_STORE_PASSWORD or the file that TENURE_STORE_PASSWORD_FILE names.
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
    // A percent sign that begins nothing.
    return undefined
  }
}

function withEnvironment({ user, password }: EtcdCredentials, environment: Environment): EtcdCredentials {
  const given = user ?? (environment['TENURE_STORE_USER'] || undefined)
  // A password is of no use to a server that knows no users.
  if (given === undefined) return { password }
  const file = environmentFile(environment, 'TENURE_STORE_PASSWORD_FILE')
  const kept = environment['TENURE_STORE_PASSWORD'] || (file && (() => file().replace(/\r?\n$/, '')))
  return { user: given, password: password ?? kept }
}
