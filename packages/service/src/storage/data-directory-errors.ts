/** Error texts for a data directory that cannot be used. They say what to do. */
import { messageOf } from '@tenure/internal/message'
import { DamagedDataError, restoreBackupAdvice } from './data-file.ts'

/** LMDB reports damage with its own codes, below those of the system. */
function isDamage(error: unknown): boolean {
  if (error instanceof DamagedDataError) return true
  const { code } = error as { code?: unknown }
  return typeof code === 'number' && code < 0
}

/** An error that already names the directory and says what to do. */
class Unusable extends Error {}

/** Returns an error that names the directory and says what to do. */
export function unusable(directory: string, cause: unknown): Error {
  if (cause instanceof Unusable) return cause
  const reason = messageOf(cause)
  const text = `The data directory ${directory} cannot be used: ${reason}`
  const advice = isDamage(cause) ? restoreBackupAdvice(directory) : isForbidden(cause) ? chown(directory) : undefined
  return new Unusable(advice === undefined ? text : `${text.replace(/\.?$/, '.')} ${advice}`, { cause })
}

function isForbidden(error: unknown): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException
  return code === 'EACCES' && syscall !== 'mkdir'
}

function chown(directory: string): string {
  const self = process.getuid?.() ?? 'USER'
  return `Change the owner of the directory and its files to the user that runs the service: chown -R ${self} ${directory}`
}

/** Returns advice for data that may be older than the promises that were made on it. */
export function staleDataAdvice(directory: string): string {
  return (
    'If the original directory still exists, use that one. Otherwise stop the service that used it, wait for the ' +
    `longest lease in use, and run "tenure restore --data ${directory}" once. It skips every term that may have been ` +
    'granted since.'
  )
}
