import { readFileSync } from 'node:fs'
import type { User } from './server.ts'

/** Returns the user to run a server as if this process is root, for servers that refuse to run as root. */
export function unprivileged(account: string): User | undefined {
  return process.getuid?.() === 0 ? (userNamed(account) ?? userNamed('nobody')) : undefined
}

function userNamed(name: string): User | undefined {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${name}:`))
  const [, , uid, gid] = line?.split(':') ?? []
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) }
}
