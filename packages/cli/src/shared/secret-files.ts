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

/** A file to write. Only the owner can read a secret one. */
export interface NewFile {
  readonly path: string
  readonly text: string
  readonly isSecret: boolean
}

/**
 * Creates either all files or none. Never replaces a file, because an old key may be the only copy. Never follows a
 * link, because another user may have created it.
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
      // Set the mode regardless of the umask, because the user of the service must be able to read the public half.
      fchmodSync(file, mode)
      writeFileSync(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === 'EEXIST'
    const text = exists
      ? `${path} already exists and is never overwritten. Choose another name, or move the existing file.`
      : `Cannot write ${path}: ${messageOf(error)}`
    throw new CommandError(text, exitCodes.failed, { cause: error })
  }
}

/** Reads a secret that only its owner may access. If others can read or write the file, it is no longer a secret. */
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
    throw unavailable(error, `Cannot read ${path}: ${messageOf(error)}`)
  }
  const text = `Other users on this machine can read or change ${path}. If you are sure that nobody has, run: chmod 600 ${path}`
  throw new CommandError(text, exitCodes.failed)
}
