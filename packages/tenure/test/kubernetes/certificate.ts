import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { isIP } from 'node:net'

/** A self-signed server certificate, as PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

const day = 86_400_000

/**
 * Makes a certificate for these names or addresses (127.0.0.1 and ::1). Encodes DER itself, so no program is needed.
 */
export function makeCertificate({ names = ['127.0.0.1', '::1'], endsMs = Date.now() + day } = {}): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const signedBy = sequence(oid('2a8648ce3d040302'))
  const name = sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(randomUUID())))))
  const alternatives = names.map((each) => (isIP(each) ? der(0x87, addressBytes(each)) : der(0x82, Buffer.from(each))))
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    signedBy,
    name,
    sequence(utcTime(endsMs - 2 * day), utcTime(endsMs)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(oid('551d11'), der(0x04, sequence(...alternatives))))),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', body, privateKey)])
  return {
    cert: pemOf(sequence(body, signedBy, der(0x03, signature))),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

export function pemOf(certificate: Buffer): string {
  // If the last line is full, no empty line may follow it, because parsers would stop there.
  const lines = certificate.toString('base64').replace(/.{1,64}/g, '$&\n')
  return `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----\n`
}

export function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

export const sequence = (...parts: readonly Buffer[]) => der(0x30, ...parts)
export const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))

export function utcTime(unixMs: number): Buffer {
  const digits = new Date(unixMs).toISOString().replace(/\D/g, '')
  return der(0x17, Buffer.from(`${digits.slice(2, 14)}Z`))
}

function addressBytes(address: string): Buffer {
  return address === '::1'
    ? Buffer.concat([Buffer.alloc(15), Buffer.from([1])])
    : Buffer.from(address.split('.').map(Number))
}
