import { invalidOption, TenureError, type ErrorDetails } from '../errors.ts'
import { messageOf } from '@tenure/internal/message'

/** A text, or a function that gives it: it is asked before each use, so that what is replaced meanwhile is used. */
export type Provided = string | (() => string | Promise<string>)

/** What may be presented for TLS, as PEM text. */
export interface ProvidedTls {
  readonly ca?: Provided | undefined
  readonly cert?: Provided | undefined
  readonly key?: Provided | undefined
}

/** What is presented must be text, or a function that gives some. */
export function checkProvided(option: string, value: unknown): void {
  const usable = value === undefined || typeof value === 'function' || (typeof value === 'string' && value !== '')
  // The value is a secret, or as good as one.
  if (!usable) throw invalidOption(option, typeof value, 'it must be a text that is not empty, or a function')
}

/** The same for certificates, of which one is of no use without its key. */
export function checkProvidedTls(tls: ProvidedTls): void {
  for (const name of ['ca', 'cert', 'key'] as const) checkProvided(name, tls[name])
  if ((tls.cert === undefined) === (tls.key === undefined)) return
  const [given, missing] = tls.key === undefined ? (['cert', 'key'] as const) : (['key', 'cert'] as const)
  throw invalidOption(missing, undefined, `"${given}" is given, and one is of no use without the other`)
}

/** The text as it is now. */
export async function provide(
  name: string,
  provided: Provided | undefined,
  isUsable: (text: string) => boolean = () => true,
): Promise<string | undefined> {
  if (provided === undefined || typeof provided === 'string') return provided
  let text: unknown
  try {
    text = await provided()
  } catch (cause) {
    if (cause instanceof TenureError) throw cause
    throw unavailable(`"${name}" is not available: ${messageOf(cause)}`, cause)
  }
  if (typeof text === 'string' && text.trim() !== '' && isUsable(text)) return text
  throw unavailable(`The function "${name}" gave nothing that can be used.`)
}

/** The certificates as they are now. */
export async function provideTls(tls: ProvidedTls) {
  const [ca, cert, key] = await Promise.all([provide('ca', tls.ca), provide('cert', tls.cert), provide('key', tls.key)])
  return { ca, cert, key }
}

/** A credential that is missing now may be there later. */
export function unavailable(message: string, cause?: unknown, details?: ErrorDetails): TenureError {
  return new TenureError('BACKEND_UNAVAILABLE', message, { retryable: true, cause, ...details })
}
