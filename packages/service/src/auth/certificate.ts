/** Client certificates: their names, and the rights that a file grants to each name. */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import type { Clock } from 'tenure'
import type { Identity } from './access.ts'
import { wrongOption } from '../common/errors.ts'
import { alternativeNames } from './alternative-names.ts'
import { readOptionFile } from './option-files.ts'
import { CredentialError } from './credential-error.ts'
import { parseRights, type AccessRights } from './rights.ts'
import { parseStrictJson } from './strict-json.ts'

/** The rights that certificates grant. The CAs that issue certificates are a TLS option. */
export interface CertificateOptions {
  /** `{ "certificates": [{ "san": "DNS:node-17.example", "node": "node-17", "groups": ["payments-*"] }] }` */
  readonly rightsFile: string
}

const clientAuth = '1.3.6.1.5.5.7.3.2'
const nameShape = /^(?:DNS:[A-Za-z0-9_.-]{1,253}|URI:[a-z][a-z0-9+.-]*:[!-)+-~]{1,2048})$/

interface ShownCertificate {
  readonly names: readonly string[]
  readonly fromMs: number
  readonly untilMs: number
}

/** Identifies the holder of a certificate. */
export class CertificateVerifier {
  readonly #rights: ReadonlyMap<string, AccessRights>
  readonly #clock: Clock
  readonly #shown = new WeakMap<TLSSocket, ShownCertificate>()

  private constructor(rights: ReadonlyMap<string, AccessRights>, clock: Clock) {
    this.#rights = rights
    this.#clock = clock
  }

  static async open({ rightsFile }: CertificateOptions, clock: Clock): Promise<CertificateVerifier> {
    const text = await readOptionFile('authentication.certificates.rightsFile', rightsFile)
    try {
      return new CertificateVerifier(parseRightsFile(text), clock)
    } catch (error) {
      throw wrongOption('authentication.certificates.rightsFile', ': ', `${messageOf(error)}.`, error)
    }
  }

  /** Returns undefined if the client sent no certificate. */
  verify(socket: Socket): Identity | undefined {
    if (!(socket instanceof TLSSocket)) return undefined
    const shown = this.#shown.get(socket) ?? this.#look(socket)
    if (!shown) return undefined
    const { names, fromMs, untilMs } = shown
    // A connection can outlive its certificate.
    const nowMs = this.#clock.wallMs()
    if (!(nowMs >= fromMs)) throw new CredentialError('the certificate is not valid yet')
    if (!(nowMs < untilMs)) throw new CredentialError('the certificate has expired', { expired: true })
    const [name, another] = names.filter((each) => this.#rights.has(each))
    const rights = name === undefined ? undefined : this.#rights.get(name)
    if (name === undefined || !rights) throw new CredentialError('no name in the certificate has rights')
    if (another !== undefined) throw new CredentialError('more than one name in the certificate has rights')
    return { subject: name, ...rights, expiresAtMs: untilMs, revocation: undefined }
  }

  #look(socket: TLSSocket): ShownCertificate | undefined {
    const certificate = socket.getPeerX509Certificate()
    if (!certificate) return undefined
    // Only the handshake sets this, and only if the chain leads to one of our CAs.
    if (!socket.authorized) throw new CredentialError('the certificate is not valid, or no known CA issued it')
    if (certificate.ca) throw new CredentialError('the certificate is a CA certificate')
    if (!certificate.keyUsage?.includes(clientAuth))
      throw new CredentialError('the certificate is not for client authentication')
    let names: string[]
    try {
      names = alternativeNames(certificate)
    } catch (error) {
      throw new CredentialError(messageOf(error))
    }
    const shown = {
      names: [...new Set(names)],
      fromMs: Date.parse(certificate.validFrom),
      untilMs: Date.parse(certificate.validTo),
    }
    this.#shown.set(socket, shown)
    return shown
  }
}

function parseRightsFile(text: string): ReadonlyMap<string, AccessRights> {
  const value = parseStrictJson(text)
  const entries = isObject(value) && Object.keys(value).join() === 'certificates' ? value['certificates'] : undefined
  if (!Array.isArray(entries)) throw new Error('it must be { "certificates": [...] }')
  const all = new Map<string, AccessRights>()
  for (const entry of entries as unknown[]) {
    const { san, ...rights } = isObject(entry) ? entry : { san: undefined }
    if (typeof san !== 'string' || !nameShape.test(san)) {
      const text = 'must be "DNS:" and a full name, or "URI:" and a full URI, without *'
      throw new Error(`san is ${JSON.stringify(san)}; it ${text}`)
    }
    if (all.has(san)) throw new Error(`"${san}" occurs twice`)
    all.set(san, parseRights(rights, san.slice('DNS:'.length)))
  }
  return all
}
