import { isLoopbackHost } from '@tenure/internal/loopback'
import { invalidOption, redactedUrl } from '../../errors.ts'
import type { Credentials } from '../../http/credentials.ts'
import {
  checkProvided,
  checkProvidedTls,
  provide,
  provideTls,
  type Provided,
  type ProvidedTls,
} from '../../http/provided.ts'

/** What is presented to the service. */
export interface ServiceCredentials extends ProvidedTls {
  readonly token?: Provided | undefined
}

/** The addresses of one cluster, checked against what would be sent there. */
export function addressesOf(url: unknown, credentials: ServiceCredentials): URL[] {
  const texts: unknown[] = Array.isArray(url) ? url : [url]
  if (texts.length === 0) throw invalidOption('url', url, 'it must name at least one service')
  const addresses = new Map(texts.map(addressOf).map((address) => [address.href, address]))
  for (const address of addresses.values()) checkSafe(address, credentials)
  return [...addresses.values()]
}

function addressOf(text: unknown): URL {
  const rule = 'it must be the http: or https: address of an election service, without anything after its path'
  const shown = typeof text === 'string' ? redactedUrl(text) : text
  if (typeof text !== 'string' || !URL.canParse(text)) throw invalidOption('url', shown, rule)
  const address = new URL(text)
  // The address is shown in messages, this one as well.
  if (address.username || address.password) {
    throw invalidOption('url', address.host, 'no password may be in the address of a service: pass a token')
  }
  const sound = /^https?:$/.test(address.protocol) && !address.search && !address.hash
  if (!sound) throw invalidOption('url', shown, rule)
  return address
}

function checkSafe({ protocol, hostname, href }: URL, { token, ca, cert, key }: ServiceCredentials): void {
  if (protocol === 'https:') return
  if (ca ?? cert ?? key) throw invalidOption('url', href, 'ca, cert and key need an https: address')
  if (token === undefined || isLoopbackHost(hostname)) return
  throw invalidOption('url', href, 'a token must not cross a network in the clear: use https:')
}

/** What is presented must be text, or a function that gives some. */
export function checkCredentials(credentials: ServiceCredentials): void {
  const { token } = credentials
  checkProvided('token', token)
  if (typeof token === 'string' && !isToken(token)) throw invalidOption('token', '***', `it must hold no ${notInToken}`)
  checkProvidedTls(credentials)
}

/** The credentials as they are now. */
export async function credentialsOf(credentials: ServiceCredentials): Promise<Credentials> {
  const [token, tls] = await Promise.all([provide('token', credentials.token, isToken), provideTls(credentials)])
  return { authorization: token === undefined ? undefined : `Bearer ${token.trim()}`, tls }
}

/** A header takes nothing else, and what Node says of it would be hard to understand. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text.trim())
}

export const notInToken = 'blanks, line breaks or letters beyond ASCII'
