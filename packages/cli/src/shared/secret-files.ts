import {
  fchmodSync,
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { messageOf } from '@tenure/internal/message'
import { CommandError, exitCodes, unavailable } from './arguments/errors.ts'

/** A file to write. `isSecret`: nobody else may read it. */
export interface NewFile {
  readonly path: string
  readonly text: string
  readonly isSecret: boolean
}

/**
 * Writes files that do not exist yet, all or none of them. Nothing is ever replaced, and no link is followed: another
 * user may have put one there, and an old key may be the only copy.
 */
export function writeNewFiles(files: readonly NewFile[]): void {
  const written: string[] = []
  try {
    for (const file of files) {
      mkdirSync(dirname(file.path), { recursive: true, mode: 0o700 })
      writeNew(file, written)
    }
  } catch (error) {
    for (const path of written) rmSync(path, { force: true })
    throw error
  }
}

function writeNew({ path, text, isSecret }: NewFile, written: string[]): void {
  const mode = isSecret ? 0o600 : 0o644
  try {
    const file = openSync(path, 'wx', mode)
    written.push(path)
    try {
      // Whatever the umask is: a public half is for the user of the service too.
      fchmodSync(file, mode)
      writeFileSync(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === 'EEXIST'
    const text = exists
      ? `There is something at ${path} already, and nothing is ever overwritten: choose another name, or move it away.`
      : `${path} cannot be written: ${messageOf(error)}`
    throw new CommandError(text, exitCodes.failed, { cause: error })
  }
}

/** Reads a secret that is for its owner alone: one that others can read, or write, is not a secret any more. */
export function readSecretFile(path: string): string {
  try {
    const file = openSync(path, 'r')
    try {
      const { mode } = fstatSync(file)
      const isOpen = process.platform !== 'win32' && (mode & 0o077) !== 0
      if (!isOpen) return readFileSync(file, 'utf8')
    } finally {
      closeSync(file)
    }
  } catch (error) {
    throw unavailable(error, `${path} cannot be read: ${messageOf(error)}`)
  }
  const text = `Other users of this machine may have read ${path}, or changed it. If nobody has: chmod 600 ${path}`
  throw new CommandError(text, exitCodes.failed)
}
