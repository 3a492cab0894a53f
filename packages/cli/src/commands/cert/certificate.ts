import { isIP } from 'node:net'
import { secret } from '@tenure/internal/clock'
import * as asn1 from 'asn1js'
import * as x509 from 'pkijs'

export interface CertificateRequest {
  readonly hosts: readonly string[]
  readonly nowMs: number
  readonly lifetimeMs: number
}

/** Backdates notBefore by an hour, for clients whose clocks are behind. */
const earlierMs = 3_600_000
const oid = {
  commonName: '2.5.4.3',
  basicConstraints: '2.5.29.19',
  keyUsage: '2.5.29.15',
  extendedKeyUsage: '2.5.29.37',
  alternativeName: '2.5.29.17',
  serverAuth: '1.3.6.1.5.5.7.3.1',
}

/**
 * Creates a self-signed server certificate and its key, both as PEM. The certificate is not a CA (CA:FALSE), so its key
 * cannot sign certificates for other servers that these clients would trust. Its subject is unique, so one CA file can
 * contain both the old and the new certificate during a replacement.
 */
export async function makeCertificate({ hosts, nowMs, lifetimeMs }: CertificateRequest) {
  const keys = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify'])
  const certificate = new x509.Certificate()
  certificate.version = 2
  const serial = secret(16)
  // Keeps the serial number positive and at its full length in DER.
  serial[0] = 0x40 | ((serial[0] ?? 0) & 0x3f)
  certificate.serialNumber = new asn1.Integer({ valueHex: new Uint8Array(serial).buffer })
  const value = new asn1.Utf8String({ value: `tenure service ${serial.toString('hex').slice(0, 12)}` })
  for (const name of [certificate.issuer, certificate.subject]) {
    name.typesAndValues.push(new x509.AttributeTypeAndValue({ type: oid.commonName, value }))
  }
  certificate.notBefore.value = new Date(nowMs - earlierMs)
  certificate.notAfter.value = new Date(nowMs + lifetimeMs)
  const names = new x509.GeneralNames({ names: hosts.map(nameOf) })
  const usage = new x509.ExtKeyUsage({ keyPurposes: [oid.serverAuth] })
  const digitalSignature = new asn1.BitString({ valueHex: Uint8Array.of(0x80).buffer, unusedBits: 7 })
  certificate.extensions = [
    extension(oid.basicConstraints, new x509.BasicConstraints({ cA: false }).toSchema(), true),
    extension(oid.keyUsage, digitalSignature, true),
    extension(oid.extendedKeyUsage, usage.toSchema()),
    extension(oid.alternativeName, names.toSchema()),
  ]
  await certificate.subjectPublicKeyInfo.importKey(keys.publicKey)
  await certificate.sign(keys.privateKey, 'SHA-256')
  return {
    certificate: pemOf('CERTIFICATE', certificate.toSchema(true).toBER()),
    privateKey: pemOf('PRIVATE KEY', await crypto.subtle.exportKey('pkcs8', keys.privateKey)),
  }
}

function extension(extnID: string, value: { toBER(): ArrayBuffer }, critical = false): x509.Extension {
  return new x509.Extension({ extnID, critical, extnValue: value.toBER() })
}

/** Clients compare an IP address only with the certificate's IP entries, and a host name only with its DNS entries. */
function nameOf(host: string): x509.GeneralName {
  const bare = host.replaceAll(/^\[|\]$/g, '')
  if (isIP(bare) === 0) return new x509.GeneralName({ type: 2, value: host })
  return new x509.GeneralName({ type: 7, value: new asn1.OctetString({ valueHex: bytesOf(bare).buffer }) })
}

/** The bytes of an IP address. The URL parser normalizes IPv6. */
function bytesOf(address: string): Uint8Array<ArrayBuffer> {
  if (isIP(address) === 4) return Uint8Array.from(address.split('.').map(Number))
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [head = '', tail] = short.split('::')
  const wordsOf = (text: string) => (text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16)))
  const [before, after] = [wordsOf(head), wordsOf(tail ?? '')]
  const words = [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after]
  return Uint8Array.from(words.flatMap((word) => [word >> 8, word & 0xff]))
}

function pemOf(label: string, der: ArrayBuffer): string {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ''].join('\n')
}
