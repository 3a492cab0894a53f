import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmdirSync,
  unlinkSync,
} from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * These errors mean that the folder is gone or belongs to another user. If a file or folder with the same name exists
 * now, it must not be touched.
 */
const lossErrorCodes = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES']
/**
 * Where the kernel lists open descriptors. A path through a descriptor stays in that folder, even if another folder
 * takes its name.
 */
const descriptors = existsSync('/proc/self/fd') ? '/proc/self/fd' : undefined

/**
 * A private folder in the temporary directory, which all users share. A cleaner may remove it at any time, and then any
 * user can create a folder or link with the same name. So each use checks the owner first, follows no link, and stays
 * in the folder that was checked.
 */
export class PrivateFolder {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  /** Creates a folder under a name that has never been used. */
  static make(): PrivateFolder {
    return new PrivateFolder(mkdtempSync(join(tmpdir(), 'tenure-run-')))
  }

  /** Replaces a file atomically. Resolves to false, without writing anything, if the folder is gone or not ours. */
  async write(name: string, text: string): Promise<boolean> {
    const folder = this.#enter()
    if (!folder) return false
    const place = join(folder.place, name)
    try {
      const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants
      const file = await open(`${place}.new`, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600)
      try {
        await file.writeFile(text)
      } finally {
        await file.close()
      }
      await rename(`${place}.new`, place)
      return true
    } catch (error) {
      if (isLoss(error)) return false
      throw error
    } finally {
      closeSync(folder.fd)
    }
  }

  /** Removes the files with such names and the folder, if it is still ours. Never removes anything else. */
  remove(isOurs: (name: string) => boolean): void {
    const folder = this.#enter()
    if (!folder) return
    try {
      for (const name of readdirSync(folder.place)) {
        if (isOurs(name.replace(/\.new$/, ''))) attempt(() => unlinkSync(join(folder.place, name)))
      }
    } catch {
      // The folder has been removed at this moment.
    } finally {
      closeSync(folder.fd)
    }
    attempt(() => rmdirSync(this.path))
  }

  #enter(): { readonly fd: number; readonly place: string } | undefined {
    let fd: number
    try {
      fd = openSync(this.path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    } catch (error) {
      if (isLoss(error)) return undefined
      throw error
    }
    const { uid, mode } = fstatSync(fd)
    if (uid === process.geteuid?.() && (mode & 0o022) === 0) {
      return { fd, place: descriptors === undefined ? this.path : join(descriptors, String(fd)) }
    }
    closeSync(fd)
    return undefined
  }
}

function isLoss(error: unknown): boolean {
  return lossErrorCodes.includes((error as NodeJS.ErrnoException).code ?? '')
}

/** Ignores errors, because files left in a temporary directory do no harm. */
function attempt(action: () => void): void {
  try {
    action()
  } catch {
    // The file is gone, or the folder is not empty.
  }
}
