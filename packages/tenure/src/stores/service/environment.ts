import { invalidOption } from '../../errors.ts'
import { environmentFile, environmentTls, type Environment } from '../../http/environment.ts'
import { unavailable } from '../../http/provided.ts'
import { isToken, notInToken, type ServiceCredentials } from './options.ts'

/** The credentials from the environment, where a service is named by its address alone. */
export function environmentCredentials(environment: Environment): ServiceCredentials {
  const tokenFile = environmentFile(environment, 'TENURE_TOKEN_FILE')
  const { TENURE_TOKEN: token } = environment
  if (token && tokenFile) {
    throw invalidOption('TENURE_TOKEN_FILE', environment['TENURE_TOKEN_FILE'], 'TENURE_TOKEN is set as well')
  }
  return {
    token: token || (tokenFile && (() => tokenIn(tokenFile(), environment['TENURE_TOKEN_FILE']))),
    ...environmentTls(environment),
  }
}

function tokenIn(text: string, path: string | undefined): string {
  if (!isToken(text)) throw unavailable(`The token in ${path} holds ${notInToken}.`)
  return text
}
