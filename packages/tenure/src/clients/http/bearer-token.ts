import { invalidOption } from '../../common/errors.ts'
import type { Credentials } from './credentials.ts'
import { checkProvided, checkProvidedTls, provide, provideTls, type Provided, type ProvidedTls } from './provided.ts'

/** A token that each call presents, and TLS credentials. */
export interface TokenCredentials extends ProvidedTls {
  readonly token?: Provided | undefined
}

/** Checks that each credential is a string, or a function that returns one. */
export function checkTokenCredentials(credentials: TokenCredentials): void {
  const { token } = credentials
  checkProvided('token', token)
  if (typeof token === 'string' && !isToken(token))
    throw invalidOption('token', '***', `it must not contain ${notInToken}`)
  checkProvidedTls(credentials)
}

/** Returns the current credentials for a call. */
export async function tokenCredentialsOf(credentials: TokenCredentials): Promise<Credentials> {
  const [token, tls] = await Promise.all([provide('token', credentials.token, isToken), provideTls(credentials)])
  return { authorization: token === undefined ? undefined : `Bearer ${token.trim()}`, tls }
}

/** True if the text can be sent in a header. For any other text, Node's own error would be hard to understand. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text.trim())
}

export const notInToken = 'spaces, line breaks or non-ASCII characters'
