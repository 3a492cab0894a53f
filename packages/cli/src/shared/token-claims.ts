import { readFileSync } from 'node:fs'
import { isObject } from '@tenure/internal/objects'

/**
 * Returns the claims of a token without verifying them, or undefined if it is not a JWT. Only a service can decide
 * whether a token is valid.
 */
export function claimsOf(token: string): Readonly<Record<string, unknown>> | undefined {
  const [, payload = ''] = token.trim().split('.')
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString())
    return isObject(claims) ? claims : undefined
  } catch {
    return undefined
  }
}

/**
 * Returns the node of the token in this environment. Undefined if there is no token, or if it is valid for several
 * nodes. A token that cannot be read is reported by the call that needs it.
 */
export function nodeOfToken({ TENURE_TOKEN, TENURE_TOKEN_FILE }: NodeJS.ProcessEnv): string | undefined {
  const claims = claimsOf(TENURE_TOKEN || textIn(TENURE_TOKEN_FILE))
  const rights = isObject(claims?.['tenure']) ? claims['tenure'] : {}
  if (rights['nodePrefix'] !== undefined) return undefined
  const node = rights['node'] ?? claims?.['sub']
  return typeof node === 'string' && node !== '' ? node : undefined
}

function textIn(path: string | undefined): string {
  try {
    return path ? readFileSync(path, 'utf8') : ''
  } catch {
    return ''
  }
}
