import { readFileSync } from 'node:fs'

/**
 * Returns a function that reads a small file that is replaced from time to time. It reads synchronously, because Node's
 * file threads may be busy with the program's own files while a renewal waits. If the file is missing or empty, for
 * example during a replacement, it returns the last content.
 */
export function credentialFile(path: string, unreadable: (cause: unknown) => Error, first?: string): () => string {
  let last = first
  return () => {
    try {
      const text = readFileSync(path, 'utf8')
      if (text.trim() === '') throw new Error('the file is empty')
      last = text
    } catch (cause) {
      if (last === undefined) throw unreadable(cause)
    }
    return last
  }
}
