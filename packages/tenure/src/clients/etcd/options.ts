import { invalidOption, redactedUrl } from '../../common/errors.ts'
import { checkProvided, checkProvidedTls } from '../http/provided.ts'
import { checkName } from '../../common/names.ts'
import type { EtcdCredentials } from './client.ts'

const usualPort = 2379
const addressRule = 'it must be the http: or https: URL of an etcd member, such as "http://10.0.0.1:2379"'

/** Parses the addresses of one cluster and checks that the credentials may be sent there. */
export function addressesOf(endpoints: unknown, credentials: EtcdCredentials): URL[] {
  const texts: unknown[] = Array.isArray(endpoints) ? endpoints : [endpoints]
  if (texts.length === 0) throw invalidOption('endpoints', endpoints, 'it must contain at least one URL')
  const addresses = new Map(texts.map(addressOf).map((address) => [address.href, address]))
  const kinds = new Set([...addresses.values()].map(({ protocol }) => protocol))
  if (kinds.size > 1) throw invalidOption('endpoints', endpoints, 'the URLs must be all http: or all https:')
  const { ca, cert, key } = credentials
  if (kinds.has('http:') && (ca ?? cert ?? key)) {
    throw invalidOption('endpoints', [...addresses.keys()].join(','), 'ca, cert and key require https: URLs')
  }
  return [...addresses.values()]
}

function addressOf(text: unknown): URL {
  if (typeof text !== 'string') throw invalidOption('endpoints', text, addressRule)
  const shown = redactedUrl(text)
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) throw invalidOption('endpoints', shown, addressRule)
  const address = new URL(text)
  // Check the whole text: an unencoded password may contain a slash.
  if (text.includes('@')) {
    throw invalidOption('endpoints', shown, 'it must not contain a password: pass "user" and "password"')
  }
  if (address.search || address.hash) throw invalidOption('endpoints', shown, addressRule)
  // The default port of the scheme is not etcd's, and URL drops it even if it is written explicitly.
  if (address.port === '' && !/^https?:\/\/[^/]*:\d+(\/|$)/i.test(text)) address.port = String(usualPort)
  return address
}

/** Checks that the credentials are complete, and that each is a string or a function that returns one. */
export function checkCredentials(credentials: EtcdCredentials): void {
  const { user, password } = credentials
  if (user !== undefined && (typeof user !== 'string' || user === '')) {
    throw invalidOption('user', user, 'it must be a non-empty string')
  }
  checkProvided('password', password)
  checkProvidedTls(credentials)
  if ((user === undefined) === (password === undefined)) return
  const [given, missing] = user === undefined ? (['password', 'user'] as const) : (['user', 'password'] as const)
  const inUrl = 'in a URL: etcd://user:password@host, or TENURE_STORE_USER and TENURE_STORE_PASSWORD'
  throw invalidOption(missing, undefined, `it is required because "${given}" is set (${inUrl})`)
}

/** The prefix of all keys. Surrounding slashes are ignored, so that `/tenure` and `tenure` mean the same fleet. */
export function prefixOf(prefix: unknown): string {
  const trimmed = typeof prefix === 'string' ? prefix.replace(/^\/+|\/+$/g, '') : prefix
  checkName('prefix', trimmed)
  return trimmed
}
