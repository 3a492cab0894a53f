import { messageOf } from '@tenure/internal/message'
import { credentialFile } from './credential-file.ts'
import { unavailable, type ProvidedTls } from './provided.ts'

/** Variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>

/** What is in the file that a variable names, read again at each call; undefined if the variable names none. */
export function environmentFile(environment: Environment, variable: string): (() => string) | undefined {
  const path = environment[variable]
  if (!path) return undefined
  return credentialFile(path, (cause) => {
    const isRead = cause instanceof Error && !('code' in cause)
    const rule = isRead ? 'is empty' : `cannot be read: ${messageOf(cause)}`
    const details = { option: variable, value: path, rule }
    return unavailable(`The file ${path}, which ${variable} names, ${rule}.`, cause, details)
  })
}

/** The certificates for every store that speaks TLS. */
export function environmentTls(environment: Environment): ProvidedTls {
  return {
    ca: environmentFile(environment, 'TENURE_CA_FILE'),
    cert: environmentFile(environment, 'TENURE_CERT_FILE'),
    key: environmentFile(environment, 'TENURE_KEY_FILE'),
  }
}
