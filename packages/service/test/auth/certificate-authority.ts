import { generateKeyPairSync, randomBytes, randomUUID, sign, type KeyObject } from 'node:crypto'
import { der, oid, pemOf, sequence, utcTime, type Certificate } from '../../../tenure/test/kubernetes/certificate.ts'

const day = 86_400_000
const clientAuth = '2b06010505070302'
export const serverAuth = '2b06010505070301'
export const anyUsage = '551d2500'
const ecdsaSha256 = sequence(oid('2a8648ce3d040302'))
const attribute = { commonName: '550403', organization: '55040a' }

export const dns = (name: string) => der(0x82, Buffer.from(name))
export const uri = (name: string) => der(0x86, Buffer.from(name))
export const email = (name: string) => der(0x81, Buffer.from(name))

/** The content of a certificate. Default: a client certificate for a day, without names. */
export interface Wish {
  readonly commonName?: string
  readonly organization?: string
  /** The names, encoded with `dns`, `uri`, or `email`. */
  readonly names?: readonly Buffer[]
  /** Undefined: client authentication. Empty: no usage extension. */
  readonly usages?: readonly string[]
  readonly startsMs?: number
  readonly endsMs?: number
  readonly isAuthority?: boolean
}

export interface Authority {
  readonly cert: string
  issue(wish: Wish): Certificate
}

/** A certificate authority. It encodes DER by hand, so that it can issue certificates that no real authority would. */
export function makeAuthority(commonName: string = randomUUID()): Authority {
  const keys = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const subject = nameOf({ commonName })
  const build = (wish: Wish, name: Buffer, publicKey: Buffer): string => {
    const { startsMs = Date.now() - 60_000, endsMs = Date.now() + day } = wish
    const body = sequence(
      der(0xa0, der(0x02, Buffer.from([2]))),
      der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
      ecdsaSha256,
      subject,
      sequence(utcTime(startsMs), utcTime(endsMs)),
      name,
      publicKey,
      der(0xa3, sequence(...extensionsOf(wish))),
    )
    const signature = Buffer.concat([Buffer.from([0]), sign('sha256', body, keys.privateKey)])
    return pemOf(sequence(body, ecdsaSha256, der(0x03, signature)))
  }
  return {
    cert: build({ isAuthority: true, usages: [] }, subject, spkiOf(keys.publicKey)),
    issue(wish) {
      const own = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
      return {
        cert: build(wish, nameOf(wish), spkiOf(own.publicKey)),
        key: own.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      }
    },
  }
}

function nameOf({ commonName = randomUUID(), organization }: Wish): Buffer {
  const part = (id: string, text: string) => der(0x31, sequence(oid(id), der(0x0c, Buffer.from(text))))
  const parts = organization === undefined ? [] : [part(attribute.organization, organization)]
  return sequence(...parts, part(attribute.commonName, commonName))
}

function extensionsOf({ names = [], usages = [clientAuth], isAuthority = false }: Wish): Buffer[] {
  const extension = (id: string, value: Buffer) => sequence(oid(id), der(0x04, value))
  const authority = isAuthority ? sequence(der(0x01, Buffer.from([0xff]))) : sequence()
  return [
    extension('551d13', authority),
    ...(usages.length > 0 ? [extension('551d25', sequence(...usages.map(oid)))] : []),
    ...(names.length > 0 ? [extension('551d11', sequence(...names))] : []),
  ]
}

function spkiOf(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' })
}
