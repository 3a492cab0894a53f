import { constants, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'

/** The content of a token and its signing key. */
export interface Token {
  readonly header: Record<string, unknown>
  readonly claims: Record<string, unknown>
  readonly key: KeyObject
}

export const issuer = 'https://issuer.example'
export const audience = 'tenure'

export const ecKeys = () => generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
export const rsaKeys = (modulusLength = 2048) => generateKeyPairSync('rsa', { modulusLength })

export function jwkOf(key: KeyObject, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { ...key.export({ format: 'jwk' }), ...more }
}

export const nowSeconds = () => Date.now() / 1000

/** Valid claims of a node that may join `payments-*`. */
export function claimsOf(sub: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  const iat = nowSeconds()
  return { iss: issuer, aud: audience, sub, iat, exp: iat + 600, tenure: { groups: ['payments-*'] }, ...more }
}

export function encode(part: unknown): string {
  const text = typeof part === 'string' ? part : JSON.stringify(part)
  return Buffer.from(text).toString('base64url')
}

/** Signs the header and claims, whether or not they are valid. A string is used unchanged. */
export function signed(header: object | string, claims: object | string, key: KeyObject, algorithm = 'ES256'): string {
  const input = `${encode(header)}.${encode(claims)}`
  return `${input}.${signatureOf(input, key, algorithm).toString('base64url')}`
}

export function signatureOf(input: string, key: KeyObject, algorithm: string): Buffer {
  if (algorithm === 'EdDSA') return sign(null, Buffer.from(input), key)
  const hash = `sha${algorithm.slice(2)}`
  const padding = algorithm.startsWith('PS') ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING
  const options = algorithm.startsWith('ES')
    ? { key, dsaEncoding: 'ieee-p1363' as const }
    : { key, padding, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
  return sign(hash, Buffer.from(input), options)
}

export function tokenOf({ header, claims, key }: Token): string {
  return signed(header, claims, key)
}
