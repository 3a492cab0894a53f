import { readFileSync } from 'node:fs'

/**
 * A small file that is replaced now and then, read again each time. At once, because Node's file threads may be busy
 * with the program's own files while a renewal waits. While it is gone or empty, as in the middle of a replacement,
 * what was there last counts.
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
