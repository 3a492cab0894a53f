import { statSync } from 'node:fs'
import { invalidOption } from '../../common/errors.ts'
import { environmentFile, environmentTls, type Environment } from '../../clients/http/environment.ts'
import { unavailable } from '../../clients/http/provided.ts'
import { warnOnce } from '../../log/advice.ts'
import { isToken, notInToken, type TokenCredentials } from '../../clients/http/bearer-token.ts'

const othersRead = 0o004

/** The credentials from the environment, for a service that is configured only by its URL. */
export function environmentCredentials(environment: Environment): TokenCredentials {
  const tokenFile = environmentFile(environment, 'TENURE_TOKEN_FILE')
  // For the command of a shard, `tenure run --shards` sets this to the shard's fencing token.
  const token = environment['TENURE_SHARD'] === undefined ? environment['TENURE_TOKEN'] : undefined
  if (token && tokenFile) {
    throw invalidOption(
      'TENURE_TOKEN_FILE',
      environment['TENURE_TOKEN_FILE'],
      'TENURE_TOKEN is also set. Set only one of them',
    )
  }
  return {
    token: token || (tokenFile && (() => tokenIn(tokenFile(), environment['TENURE_TOKEN_FILE']))),
    ...environmentTls(environment),
  }
}

/** Warns if other users can read the token, because it is enough to act as this node. Windows has no such modes. */
function adviseOnReaders(path = ''): void {
  const { mode } = statSync(path, { throwIfNoEntry: false }) ?? { mode: 0 }
  if (process.platform === 'win32' || (mode & othersRead) === 0) return
  warnOnce('UNSAFE_PERMISSIONS', `Any user on this machine can read the token in ${path}. Run: chmod 600 ${path}`)
}

function tokenIn(text: string, path: string | undefined): string {
  adviseOnReaders(path)
  if (!isToken(text)) throw unavailable(`The token in ${path} must not contain ${notInToken}.`)
  return text
}
