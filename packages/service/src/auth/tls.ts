import { constants, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { pemBlocks, readNamed, reasonOf } from './files.ts'

/** TLS by files, all PEM. They are read again when the service reloads. */
export interface TlsOptions {
  /** The certificate of the service, with those between it and its authority. */
  readonly certFile: string
  readonly keyFile: string
  /** The authorities whose certificates clients may show. */
  readonly clientCaFile?: string | undefined
}

/** What the files held. */
export interface Tls extends SecureContextOptions {
  readonly cert: string
  readonly key: string
  readonly ca?: string
}

/** Reads the files, and rejects with the name of the option that is wrong. */
export async function readTls({ certFile, keyFile, clientCaFile }: TlsOptions): Promise<Tls> {
  const [cert, key, ca] = await Promise.all([
    readNamed('tls.certFile', certFile),
    readNamed('tls.keyFile', keyFile),
    clientCaFile === undefined ? undefined : readNamed('tls.clientCaFile', clientCaFile),
  ])
  if (ca !== undefined) checkAuthorities(ca)
  const tls = {
    cert,
    key,
    ...(ca !== undefined && {
      ca,
      // A session that is taken up again would carry what was found out about its certificate long ago.
      secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
    }),
  }
  try {
    createSecureContext(tls)
  } catch (error) {
    throw new Error(`tls.certFile and tls.keyFile: ${reasonOf(error)}`, { cause: error })
  }
  return tls
}

/** Node takes text without any certificate in silence, and empty text for all public authorities. */
function checkAuthorities(ca: string): void {
  const blocks = pemBlocks(ca)
  if (blocks.length === 0) throw new Error('tls.clientCaFile: there is no certificate in it.')
  for (const { pem, label } of blocks) {
    if (label !== 'CERTIFICATE') throw new Error(`tls.clientCaFile: it must hold certificates, not a ${label}.`)
    let certificate: X509Certificate
    try {
      certificate = new X509Certificate(pem)
    } catch (error) {
      throw new Error(`tls.clientCaFile: ${reasonOf(error)}`, { cause: error })
    }
    if (!certificate.ca) throw new Error('tls.clientCaFile: it holds a certificate that is no authority (CA:TRUE).')
  }
}
