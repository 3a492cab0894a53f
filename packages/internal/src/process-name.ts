import { hostname } from 'node:os'

/** Leaves room for a process id and a suffix within the longest name. Host names on Linux are never longer. */
const longestHost = 128

/**
 * A name by which an operator can find a process: its host and process id. The random part distinguishes processes that
 * share both.
 */
export function processName(randomId: string): string {
  return `${hostname().slice(0, longestHost)}-${process.pid}-${randomId.slice(0, 8)}`
}
