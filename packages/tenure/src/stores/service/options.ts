import { isLoopbackHost } from '@tenure/internal/loopback'
import { invalidOption, redactedUrl } from '../../common/errors.ts'
import type { Credentials } from '../../clients/http/credentials.ts'
import {
  checkProvided,
  checkProvidedTls,
  provide,
  provideTls,
  type Provided,
  type ProvidedTls,
} from '../../clients/http/provided.ts'

/** The credentials for the service. */
export interface ServiceCredentials extends ProvidedTls {
  readonly token?: Provided | undefined
}

/** Parses the addresses of one cluster and checks that the credentials may be sent there. */
export function addressesOf(url: unknown, credentials: ServiceCredentials): URL[] {
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

function checkSafe({ protocol, hostname, href }: URL, { token, ca, cert, key }: ServiceCredentials): void {
  if (protocol === 'https:') return
  if (ca ?? cert ?? key) throw invalidOption('url', href, 'ca, cert and key require an https: URL')
  if (token === undefined || isLoopbackHost(hostname)) return
  throw invalidOption('url', href, 'a token must not cross a network unencrypted: use https:')
}

/** Checks that each credential is a string, or a function that returns one. */
export function checkCredentials(credentials: ServiceCredentials): void {
  const { token } = credentials
  checkProvided('token', token)
  if (typeof token === 'string' && !isToken(token))
    throw invalidOption('token', '***', `it must not contain ${notInToken}`)
  checkProvidedTls(credentials)
}

/** Returns the current credentials for a call. */
export async function credentialsOf(credentials: ServiceCredentials): Promise<Credentials> {
  const [token, tls] = await Promise.all([provide('token', credentials.token, isToken), provideTls(credentials)])
  return { authorization: token === undefined ? undefined : `Bearer ${token.trim()}`, tls }
}

/** True if the text can be sent in a header. For any other text, Node's own error would be hard to understand. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text.trim())
}

export const notInToken = 'spaces, line breaks or non-ASCII characters'
