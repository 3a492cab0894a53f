import { fileURLToPath } from 'node:url'
import { isTenureError, type LeaseStore } from 'tenure'
import { CommandError, exitCodes, usageError } from '../errors.ts'
import type { Supervision } from './supervision.ts'

/**
 * Opens the store of a URL. In the file store, others take over as soon as the holder is dead: here that is when both
 * this process and the supervisor are, so that they never overtake a command that is still being killed.
 */
export async function openRunStore(url: string, supervision: Supervision): Promise<LeaseStore> {
  const { openStore } = await import('tenure/stores')
  try {
    const store = await openStore(url)
    if (!/^file:/i.test(url)) return store
    const { fileStore } = await import('tenure/stores/file')
    return fileStore({
      directory: fileURLToPath(url),
      signOfLife: (attempt, path) => (path === undefined ? undefined : supervision.openSign(attempt, path)),
    })
  } catch (error) {
    throw explain(error)
  }
}

function explain(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { code } = error as NodeJS.ErrnoException
  // A password may stand before the host.
  const text = `--store: ${error.message}`.replaceAll(/\/\/[^/\s"@]*@/g, '//…@')
  if (code === 'INVALID_OPTION' || code === 'UNKNOWN_STORE') return usageError([text])
  return isTenureError(error) ? new CommandError(text, exitCodes.unavailable, { cause: error }) : error
}
