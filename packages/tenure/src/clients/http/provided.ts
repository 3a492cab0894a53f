import { invalidOption, TenureError, type ErrorDetails } from '../../common/errors.ts'
import { messageOf } from '@tenure/internal/message'

/**
 * A string, or a function that returns it. The function is called before each use, so that a replaced value takes
 * effect.
 */
export type Provided = string | (() => string | Promise<string>)

/** TLS credentials as PEM text. */
export interface ProvidedTls {
  readonly ca?: Provided | undefined
  readonly cert?: Provided | undefined
  readonly key?: Provided | undefined
}

/** Checks that a credential is a non-empty string or a function. */
export function checkProvided(option: string, value: unknown): void {
  const usable = value === undefined || typeof value === 'function' || (typeof value === 'string' && value !== '')
  // Do not show the value: it is a secret.
  if (!usable) throw invalidOption(option, typeof value, 'it must be a non-empty string or a function')
}

/** Checks TLS credentials. A certificate and its key are only valid together. */
export function checkProvidedTls(tls: ProvidedTls): void {
  for (const name of ['ca', 'cert', 'key'] as const) checkProvided(name, tls[name])
  if ((tls.cert === undefined) === (tls.key === undefined)) return
  const [given, missing] = tls.key === undefined ? (['cert', 'key'] as const) : (['key', 'cert'] as const)
  throw invalidOption(missing, undefined, `it is required because "${given}" is set`)
}

/** Returns the current text of a credential. */
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
  throw unavailable(`The function "${name}" returned no usable value.`)
}

/** Returns the current certificates and key. */
export async function provideTls(tls: ProvidedTls) {
  const [ca, cert, key] = await Promise.all([provide('ca', tls.ca), provide('cert', tls.cert), provide('key', tls.key)])
  return { ca, cert, key }
}

/** The error for a missing credential. It is retryable, because the credential may appear later. */
export function unavailable(message: string, cause?: unknown, details?: ErrorDetails): TenureError {
  return new TenureError('BACKEND_UNAVAILABLE', message, { retryable: true, cause, ...details })
}
