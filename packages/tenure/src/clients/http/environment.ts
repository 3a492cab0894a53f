import { messageOf } from '@tenure/internal/message'
import { credentialFile } from './credential-file.ts'
import { unavailable, type ProvidedTls } from './provided.ts'

/** Environment variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Returns a function that reads the file in a variable again at each call. Undefined if the variable is not set. */
export function environmentFile(environment: Environment, variable: string): (() => string) | undefined {
  const path = environment[variable]
  if (!path) return undefined
  return credentialFile(path, (cause) => {
    const isRead = cause instanceof Error && !('code' in cause)
    const rule = isRead ? 'is empty' : `cannot be read: ${messageOf(cause)}`
    const details = { option: variable, value: path, rule }
    return unavailable(`The file ${path} (${variable}) ${rule}.`, cause, details)
  })
}

/** The certificates from the environment, for every store that uses TLS. */
export function environmentTls(environment: Environment): ProvidedTls {
  return {
    ca: environmentFile(environment, 'TENURE_CA_FILE'),
    cert: environmentFile(environment, 'TENURE_CERT_FILE'),
    key: environmentFile(environment, 'TENURE_KEY_FILE'),
  }
}
