import { statSync } from 'node:fs'
import { invalidOption } from '../../errors.ts'
import { environmentFile, environmentTls, type Environment } from '../../http/environment.ts'
import { unavailable } from '../../http/provided.ts'
import { adviseOnce } from '../../advice.ts'
import { isToken, notInToken, type ServiceCredentials } from './options.ts'

const othersRead = 0o004

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

/** A token is all that it takes to speak for its node. Windows has no modes of this kind. */
function adviseOnReaders(path = ''): void {
  const { mode } = statSync(path, { throwIfNoEntry: false }) ?? { mode: 0 }
  if (process.platform === 'win32' || (mode & othersRead) === 0) return
  adviseOnce('UNSAFE_PERMISSIONS', `Every user of this machine can read the token in ${path}: chmod 600 ${path}`)
}

function tokenIn(text: string, path: string | undefined): string {
  adviseOnReaders(path)
  if (!isToken(text)) throw unavailable(`The token in ${path} holds ${notInToken}.`)
  return text
}
