import { readFileSync } from 'node:fs'
import { isatty } from 'node:tty'

/**
 * Whether the command may read the terminal. It runs in a session of its own, where the kernel would not stop it from
 * taking what is typed for somebody else while we run in the background.
 */
export function isInForeground(): boolean {
  if (!isatty(0)) return true
  try {
    const text = readFileSync('/proc/self/stat', 'utf8')
    const [, , group, , , foreground] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return foreground === '-1' || group === foreground
  } catch {
    return true
  }
}
