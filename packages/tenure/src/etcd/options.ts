import { invalidOption, redactedUrl } from '../errors.ts'
import { checkProvided, checkProvidedTls } from '../http/provided.ts'
import { checkName } from '../names.ts'
import type { EtcdCredentials } from './client.ts'

const usualPort = 2379
const addressRule = 'it must be the http: or https: address of a member of etcd, such as "http://10.0.0.1:2379"'

/** The addresses of one cluster, checked against what would be sent there. */
export function addressesOf(endpoints: unknown, credentials: EtcdCredentials): URL[] {
  const texts: unknown[] = Array.isArray(endpoints) ? endpoints : [endpoints]
  if (texts.length === 0) throw invalidOption('endpoints', endpoints, 'it must name at least one member')
  const addresses = new Map(texts.map(addressOf).map((address) => [address.href, address]))
  const kinds = new Set([...addresses.values()].map(({ protocol }) => protocol))
  if (kinds.size > 1) throw invalidOption('endpoints', endpoints, 'all must be http:, or all https:')
  const { ca, cert, key } = credentials
  if (kinds.has('http:') && (ca ?? cert ?? key)) {
    throw invalidOption('endpoints', [...addresses.keys()].join(','), 'ca, cert and key need https: addresses')
  }
  return [...addresses.values()]
}

function addressOf(text: unknown): URL {
  if (typeof text !== 'string') throw invalidOption('endpoints', text, addressRule)
  const shown = redactedUrl(text)
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) throw invalidOption('endpoints', shown, addressRule)
  const address = new URL(text)
  // Even behind a slash: a password that is not percent-encoded may contain one.
  if (text.includes('@')) {
    throw invalidOption('endpoints', shown, 'no password may be in an address: pass "user" and "password"')
  }
  if (address.search || address.hash) throw invalidOption('endpoints', shown, addressRule)
  // The default port of such a URL is not etcd's, and is dropped even where it is written.
  if (address.port === '' && !/^https?:\/\/[^/]*:\d+(\/|$)/i.test(text)) address.port = String(usualPort)
  return address
}

/** What is presented must be complete, and texts or functions that give some. */
export function checkCredentials(credentials: EtcdCredentials): void {
  const { user, password } = credentials
  if (user !== undefined && (typeof user !== 'string' || user === '')) {
    throw invalidOption('user', user, 'it must be a text that is not empty')
  }
  checkProvided('password', password)
  checkProvidedTls(credentials)
  if ((user === undefined) === (password === undefined)) return
  const [given, missing] = user === undefined ? (['password', 'user'] as const) : (['user', 'password'] as const)
  const inUrl = 'in a URL: etcd://user:password@host, or TENURE_STORE_USER and TENURE_STORE_PASSWORD'
  throw invalidOption(missing, undefined, `"${given}" is given, and one is of no use without the other (${inUrl})`)
}

/** Below which all keys are. Slashes around it change nothing: `/tenure` and `tenure` must not be two fleets. */
export function prefixOf(prefix: unknown): string {
  const trimmed = typeof prefix === 'string' ? prefix.replace(/^\/+|\/+$/g, '') : prefix
  checkName('prefix', trimmed)
  return trimmed
}
