import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { environmentFile, environmentTls, type Environment } from '../../clients/http/environment.ts'
import { consulStore } from './index.ts'

/** The required form of a URL. */
export const consulUrlRule =
  'it must be "consul://host:8500,host:8500/prefix" ("consuls://" for TLS), percent-encoded and without a token, which CONSUL_HTTP_TOKEN contains'

/**
 * Opens the store that a `consul:` or `consuls:` URL names. The token is in CONSUL_HTTP_TOKEN, or in the file that
 * CONSUL_HTTP_TOKEN_FILE names. Undefined if the URL is invalid.
 */
export function openConsul(url: string, environment: Environment): InspectableStore | undefined {
  const [, secure, hosts = '', prefix] = /^consul(s?):\/\/([^/?#@]+)(?:\/([^?#@]*))?$/i.exec(url) ?? []
  if (hosts === '') return undefined
  let folder: string | undefined
  try {
    folder = prefix ? decodeURIComponent(prefix) : undefined
  } catch {
    return undefined
  }
  const file = environmentFile(environment, 'CONSUL_HTTP_TOKEN_FILE')
  return consulStore({
    endpoints: hosts.split(',').map((host) => `${secure ? 'https' : 'http'}://${host}`),
    prefix: folder,
    token: environment['CONSUL_HTTP_TOKEN'] || (file && (() => file().trim())),
    ...(secure && environmentTls(environment)),
  })
}
