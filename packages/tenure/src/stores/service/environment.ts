import { invalidOption, TenureError } from '../../errors.ts'
import { credentialFile } from '../../http/credential-file.ts'
import type { Provided, ServiceCredentials } from './options.ts'

/** What the environment gives to whoever names a service by its address alone. */
export function environmentCredentials(environment: Readonly<Record<string, string | undefined>>): ServiceCredentials {
  const file = (variable: string): Provided | undefined => {
    const path = environment[variable]
    if (!path) return undefined
    return credentialFile(path, (cause) => {
      const text = `The file ${path}, which ${variable} names, cannot be read.`
      return new TenureError('BACKEND_UNAVAILABLE', text, { cause, retryable: true })
    })
  }
  const { TENURE_TOKEN: token } = environment
  if (token && environment['TENURE_TOKEN_FILE']) {
    throw invalidOption('TENURE_TOKEN_FILE', environment['TENURE_TOKEN_FILE'], 'TENURE_TOKEN is set as well')
  }
  return {
    token: token || file('TENURE_TOKEN_FILE'),
    ca: file('TENURE_CA_FILE'),
    cert: file('TENURE_CERT_FILE'),
    key: file('TENURE_KEY_FILE'),
  }
}
