import { constants, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { Logger } from 'pino'
import type { Clock } from 'tenure'
import { wrongOption } from '../common/errors.ts'
import { withOptionName, pemBlocks, readOptionFile } from './option-files.ts'

/** The files for TLS, all PEM. They are read again when the service reloads. */
export interface TlsOptions {
  /** The certificate of the service, followed by the intermediate certificates up to its CA. */
  readonly certFile: string
  readonly keyFile: string
  /** The CAs of client certificates. If omitted, clients are not asked for a certificate. */
  readonly clientCaFile?: string | undefined
}

/** The contents of the files. */
export interface Tls extends SecureContextOptions {
  readonly cert: string
  readonly key: string
  readonly ca?: string
}

/** Reads the files. Rejects with an error that names the invalid option. */
export async function readTls({ certFile, keyFile, clientCaFile }: TlsOptions): Promise<Tls> {
  const [cert, key, ca] = await Promise.all([
    readOptionFile('tls.certFile', certFile),
    readOptionFile('tls.keyFile', keyFile),
    clientCaFile === undefined ? undefined : readOptionFile('tls.clientCaFile', clientCaFile),
  ])
  withOptionName('tls.certFile', () => pemBlocks(cert))
  withOptionName('tls.keyFile', () => pemBlocks(key))
  if (ca !== undefined) checkAuthorities(ca)
  const tls = {
    cert,
    key,
    ...(ca !== undefined && {
      ca,
      // A resumed session would reuse the result of an old certificate check.
      secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
    }),
  }
  withOptionName('tls.certFile', () => createSecureContext(tls), ' and tls.keyFile: ')
  return tls
}

/** Node silently accepts text without any certificate, and treats empty text as all public CAs. */
function checkAuthorities(ca: string): void {
  const option = 'tls.clientCaFile'
  const blocks = withOptionName(option, () => pemBlocks(ca))
  if (blocks.length === 0) throw wrongOption(option, ': ', 'it contains no certificate.')
  for (const { pem, label } of blocks) {
    if (label !== 'CERTIFICATE') throw wrongOption(option, ': ', `it must contain certificates, not a ${label}.`)
    const { ca: isAuthority } = withOptionName(option, () => new X509Certificate(pem))
    if (!isAuthority)
      throw wrongOption(option, ': ', 'it contains a certificate that is not a CA certificate (CA:TRUE).')
  }
}

const dayMs = 86_400_000
const noticeMs = 30 * dayMs

/** Warns about a certificate that expires soon, now and every day. Once it expires, clients can no longer connect. */
export function warnOfExpiry(logger: Logger, clock: Clock, present: () => Tls | undefined) {
  const look = () => {
    const tls = present()
    if (!tls) return
    const { validTo } = new X509Certificate(tls.cert)
    const leftMs = Date.parse(validTo) - clock.wallMs()
    if (leftMs > noticeMs) return
    const text = leftMs > 0 ? "the service's certificate expires soon" : "the service's certificate has expired"
    logger.warn({ validTo }, `${text}: clients reject an expired certificate`)
  }
  const everyDay = () => {
    look()
    timer = clock.setTimer(dayMs, everyDay, { background: true })
  }
  let timer = clock.setTimer(dayMs, everyDay, { background: true })
  look()
  return { look, stop: () => timer.cancel() }
}
