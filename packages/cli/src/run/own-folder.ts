import { closeSync, constants, existsSync, fstatSync, mkdtempSync, openSync, rmdirSync, unlinkSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The folder is gone, or no longer ours: what has its name now must not be touched. */
const signsOfLoss = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES']
/** Where the kernel shows open descriptors. A path through one of them stays in that folder, whatever has its name now. */
const descriptors = existsSync('/proc/self/fd') ? '/proc/self/fd' : undefined

/**
 * A folder of our own in the temporary directory, which all users share. It may be swept away at any time, and then any
 * user can put a folder or a link there under the same name. So each use first checks the owner, follows no link, and
 * stays in the folder that was checked.
 */
export class OwnFolder {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  /** Makes one under a name that nobody has used. */
  static make(): OwnFolder {
    return new OwnFolder(mkdtempSync(join(tmpdir(), 'tenure-run-')))
  }

  /** Replaces a file in one step. Gives false if the folder is gone or not ours: then nothing was written. */
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

  /** Removes it with these files, if it is still ours. Nothing else is ever removed. */
  remove(names: readonly string[]): void {
    const folder = this.#enter()
    if (!folder) return
    try {
      for (const name of names.flatMap((each) => [each, `${each}.new`]))
        attempt(() => unlinkSync(join(folder.place, name)))
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
  return signsOfLoss.includes((error as NodeJS.ErrnoException).code ?? '')
}

/** What is left behind in a temporary directory does no harm. */
function attempt(action: () => void): void {
  try {
    action()
  } catch {
    // It is gone, or something was put into it.
  }
}
