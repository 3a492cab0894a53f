import { hostname } from 'node:os'

/** Leaves room, within the longest name, for a process id and a suffix. No host of Linux has a longer name. */
const longestHost = 128

/** What people find a process by: its host and process id. The random part sets those apart that share both. */
export function processName(randomId: string): string {
  return `${hostname().slice(0, longestHost)}-${process.pid}-${randomId.slice(0, 8)}`
}
