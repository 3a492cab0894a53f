import { TenureError, invalidOption, messageOf } from '../../errors.ts'
import type { Credentials } from '../../http/credentials.ts'
import { redactedUrl } from '../redacted-url.ts'

/** A text, or a function that gives it: it is asked before each call, so that what is replaced meanwhile is used. */
export type Provided = string | (() => string | Promise<string>)

/** What is presented to the service. */
export interface ServiceCredentials {
  readonly token?: Provided | undefined
  readonly ca?: Provided | undefined
  readonly cert?: Provided | undefined
  readonly key?: Provided | undefined
}

const presented = ['token', 'ca', 'cert', 'key'] as const

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
    throw invalidOption('url', address.host, 'no password may stand in the address of a service: pass a token')
  }
  const sound = /^https?:$/.test(address.protocol) && !address.search && !address.hash
  if (!sound) throw invalidOption('url', shown, rule)
  return address
}

function checkSafe({ protocol, hostname, href }: URL, { token, ca, cert, key }: ServiceCredentials): void {
  if (protocol === 'https:') return
  if (ca ?? cert ?? key) throw invalidOption('url', href, 'ca, cert and key need an https: address')
  if (token === undefined || isLoopback(hostname)) return
  throw invalidOption('url', href, 'a token must not cross a network in the clear: use https:')
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname)
}

/** What is presented must be text, or a function that gives some. */
export function checkCredentials(credentials: ServiceCredentials): void {
  for (const name of presented) {
    const value: unknown = credentials[name]
    const usable = value === undefined || typeof value === 'function' || (typeof value === 'string' && value !== '')
    // The value is a secret, or as good as one.
    if (!usable) throw invalidOption(name, typeof value, 'it must be a text that is not empty, or a function')
  }
  const { token } = credentials
  if (typeof token === 'string' && !isToken(token)) throw invalidOption('token', '***', `it must hold no ${notInToken}`)
  if ((credentials.cert === undefined) !== (credentials.key === undefined)) {
    const [given, missing] = credentials.key === undefined ? ['cert', 'key'] : ['key', 'cert']
    throw invalidOption(missing ?? '', undefined, `"${given}" is given, and one is of no use without the other`)
  }
}

/** The credentials as they are now. */
export async function credentialsOf(credentials: ServiceCredentials): Promise<Credentials> {
  const [token, ca, cert, key] = await Promise.all(presented.map((name) => provide(name, credentials[name])))
  return { authorization: token === undefined ? undefined : `Bearer ${token.trim()}`, tls: { ca, cert, key } }
}

async function provide(name: string, provided: Provided | undefined): Promise<string | undefined> {
  if (provided === undefined || typeof provided === 'string') return provided
  let text: unknown
  try {
    text = await provided()
  } catch (cause) {
    if (cause instanceof TenureError) throw cause
    throw unavailable(`"${name}" could not be had: ${messageOf(cause)}`, cause)
  }
  const usable = typeof text === 'string' && text.trim() !== '' && (name !== 'token' || isToken(text))
  if (!usable) throw unavailable(`The function "${name}" gave nothing that can be used.`)
  return text as string
}

/** A header takes nothing else, and what Node says of it would be hard to understand. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text.trim())
}

export const notInToken = 'blanks, line breaks or letters beyond ASCII'

export function unavailable(message: string, cause?: unknown): TenureError {
  return new TenureError('BACKEND_UNAVAILABLE', message, { retryable: true, cause })
}
