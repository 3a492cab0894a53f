import { invalidOption, messageOf } from '../../errors.ts'
import { credentialFile } from '../../http/credential-file.ts'
import { isToken, notInToken, unavailable, type ServiceCredentials } from './options.ts'

/** What the environment gives to whoever names a service by its address alone. */
export function environmentCredentials(environment: Readonly<Record<string, string | undefined>>): ServiceCredentials {
  const file = (variable: string): (() => string) | undefined => {
    const path = environment[variable]
    if (!path) return undefined
    return credentialFile(path, (cause) => {
      const isRead = cause instanceof Error && !('code' in cause)
      const what = isRead ? 'is empty' : `cannot be read: ${messageOf(cause)}`
      return unavailable(`The file ${path}, which ${variable} names, ${what}.`, cause)
    })
  }
  const tokenFile = file('TENURE_TOKEN_FILE')
  const { TENURE_TOKEN: token } = environment
  if (token && tokenFile) {
    throw invalidOption('TENURE_TOKEN_FILE', environment['TENURE_TOKEN_FILE'], 'TENURE_TOKEN is set as well')
  }
  return {
    token: token || (tokenFile && (() => tokenIn(tokenFile(), environment['TENURE_TOKEN_FILE']))),
    ca: file('TENURE_CA_FILE'),
    cert: file('TENURE_CERT_FILE'),
    key: file('TENURE_KEY_FILE'),
  }
}

function tokenIn(text: string, path: string | undefined): string {
  if (!isToken(text)) throw unavailable(`The token in ${path} holds ${notInToken}.`)
  return text
}
