import { isLoopbackHost } from '@tenure/internal/loopback'
import { invalidOption, redactedUrl } from '../../common/errors.ts'
import type { TokenCredentials } from '../../clients/http/bearer-token.ts'

/** Parses the addresses of one cluster and checks that the credentials may be sent there. */
export function addressesOf(url: unknown, credentials: TokenCredentials): URL[] {
  const texts: unknown[] = Array.isArray(url) ? url : [url]
  if (texts.length === 0) throw invalidOption('url', url, 'it must contain at least one URL')
  const addresses = new Map(texts.map(addressOf).map((address) => [address.href, address]))
  for (const address of addresses.values()) checkSafe(address, credentials)
  return [...addresses.values()]
}

function addressOf(text: unknown): URL {
  const rule = 'it must be the http: or https: URL of an election service, without a query or fragment'
  const shown = typeof text === 'string' ? redactedUrl(text) : text
  if (typeof text !== 'string' || !URL.canParse(text)) throw invalidOption('url', shown, rule)
  const address = new URL(text)
  // Remove the password, because errors show the address.
  if (address.username || address.password) {
    throw invalidOption('url', address.host, 'the URL of a service must not contain a password: pass a token')
  }
  const sound = /^https?:$/.test(address.protocol) && !address.search && !address.hash
  if (!sound) throw invalidOption('url', shown, rule)
  return address
}

function checkSafe({ protocol, hostname, href }: URL, { token, ca, cert, key }: TokenCredentials): void {
  if (protocol === 'https:') return
  if (ca ?? cert ?? key) throw invalidOption('url', href, 'ca, cert and key require an https: URL')
  if (token === undefined || isLoopbackHost(hostname)) return
  throw invalidOption('url', href, 'a token must not cross a network unencrypted: use https:')
}
