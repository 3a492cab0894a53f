import { invalidOption, redactedUrl } from '../../common/errors.ts'
import { checkName } from '../../common/names.ts'
import type { ProvidedTls } from './provided.ts'

/** The servers that a list of addresses may name. */
export interface AddressKind {
  /** One server, with its article, for messages. */
  readonly server: string
  readonly usualPort: number
  /** How to pass credentials instead of writing them into an address. */
  readonly credentials: string
}

/** Parses the addresses of one cluster and checks that the credentials may be sent there. */
export function addressesIn(endpoints: unknown, { ca, cert, key }: ProvidedTls, kind: AddressKind): URL[] {
  const texts: unknown[] = Array.isArray(endpoints) ? endpoints : [endpoints]
  if (texts.length === 0) throw invalidOption('endpoints', endpoints, 'it must contain at least one URL')
  const parsed = texts.map((text) => addressOf(text, kind))
  const addresses = new Map(parsed.map((address) => [address.href, address]))
  const schemes = new Set(parsed.map(({ protocol }) => protocol))
  if (schemes.size > 1) throw invalidOption('endpoints', endpoints, 'the URLs must be all http: or all https:')
  if (schemes.has('http:') && (ca ?? cert ?? key)) {
    throw invalidOption('endpoints', [...addresses.keys()].join(','), 'ca, cert and key require https: URLs')
  }
  return [...addresses.values()]
}

function addressOf(text: unknown, { server, usualPort, credentials }: AddressKind): URL {
  const rule = `it must be the http: or https: URL of ${server}, such as "http://10.0.0.1:${usualPort}"`
  if (typeof text !== 'string') throw invalidOption('endpoints', text, rule)
  const shown = redactedUrl(text)
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) throw invalidOption('endpoints', shown, rule)
  const address = new URL(text)
  // Check the whole text: an unencoded password may contain a slash.
  if (text.includes('@')) {
    throw invalidOption('endpoints', shown, `it must not contain a password: pass ${credentials}`)
  }
  if (address.search || address.hash) throw invalidOption('endpoints', shown, rule)
  // The default port of the scheme is not the server's, and URL drops it even if it is written explicitly.
  if (address.port === '' && !/^https?:\/\/[^/]*:\d+(\/|$)/i.test(text)) address.port = String(usualPort)
  return address
}

/** The prefix of all keys. Surrounding slashes are ignored, so that `/tenure` and `tenure` mean the same fleet. */
export function prefixOf(prefix: unknown): string {
  const trimmed = typeof prefix === 'string' ? prefix.replace(/^\/+|\/+$/g, '') : prefix
  checkName('prefix', trimmed)
  return trimmed
}
