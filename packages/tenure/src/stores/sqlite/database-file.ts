import { readdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { TenureError } from '../../common/errors.ts'
import { findOnLocalFilesystem } from '../../store-kit/local-filesystem.ts'

/**
 * The files of an open database. SQLite keeps writing to a file that was deleted or replaced, and other processes then
 * use another one. So each call checks that the paths still lead to the files that the connection has open.
 *
 * This class only looks at paths. Opening and closing one of the files, even to read it, would end the locks that
 * SQLite holds on it for this process.
 */
export class DatabaseFile {
  readonly path: string
  readonly #identity: string[]

  private constructor(path: string) {
    this.path = path
    this.#identity = identityOf(path)
  }

  /** Call this once the connection has read the database, so that it has the files open. */
  static async inspect(path: string, allowNetworkFilesystem: boolean): Promise<DatabaseFile> {
    await findOnLocalFilesystem(dirname(path), allowNetworkFilesystem)
    const file = new DatabaseFile(path)
    if (!areOpenHere(file.#identity)) throw file.#replaced()
    return file
  }

  /** Throws if one of the files was deleted or replaced. */
  check(): void {
    for (const [index, found] of identityOf(this.path).entries()) {
      const known = this.#identity[index]
      if (found === known) continue
      // Turning on the write-ahead log creates its two files. While a connection is open, nothing creates them again.
      if (index === 0 || known !== absent) throw this.#replaced()
      this.#identity[index] = found
    }
  }

  #replaced(): TenureError {
    const text = `The database file "${this.path}", or one of the files next to it with the endings "-wal" and "-shm", was deleted or replaced while it was open, so nothing was read or written. Stop all processes that use these files before you change them. A program that passes its own client must open it again.`
    return new FileReplaced('BACKEND_UNAVAILABLE', text, { retryable: true })
  }
}

/** The connection has other files open than those that its paths lead to. */
export class FileReplaced extends TenureError {}

const absent = 'absent'

function identityOf(path: string): string[] {
  return [path, `${path}-wal`, `${path}-shm`].map(fileAt)
}

function fileAt(path: string): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found ? `${found.dev}:${found.ino}` : absent
}

/** Whether this process has these files open. True where the system does not say. */
function areOpenHere(identity: readonly string[]): boolean {
  let names: string[]
  try {
    names = readdirSync('/proc/self/fd')
  } catch {
    return true
  }
  const open = new Set(names.map((name) => fileAt(`/proc/self/fd/${name}`)))
  return identity.every((file, index) => open.has(file) || (index > 0 && file === absent))
}
