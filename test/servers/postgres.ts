import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Client } from 'pg'
import { programs } from './programs.ts'
import type { ServerKind, User } from './server.ts'

const url = (port: number) => `postgres://postgres@127.0.0.1:${port}/postgres`

/** PostgreSQL. Its programs refuse to run as root. */
export const postgres: ServerKind = {
  name: 'PostgreSQL',
  program: programs.postgres,
  user: () => (process.getuid?.() === 0 ? (account('postgres') ?? account('nobody')) : undefined),
  prepare({ path, directory, user }) {
    const initdb = join(dirname(path), 'initdb')
    const args = [
      '-D',
      join(directory, 'data'),
      '-U',
      'postgres',
      '-A',
      'trust',
      '-E',
      'UTF8',
      '--locale=C',
      '--no-sync',
    ]
    execFileSync(initdb, args, { cwd: directory, stdio: 'pipe', ...user })
  },
  args: ({ directory, port }) => {
    const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', shared_buffers: '16MB', port }
    return [
      '-D',
      join(directory, 'data'),
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ]
  },
  async probe({ port }) {
    const client = new Client({ connectionString: url(port), connectionTimeoutMillis: 1_000 })
    client.on('error', () => {})
    try {
      await client.connect()
    } finally {
      await client.end()
    }
  },
  url,
  stopSignal: 'SIGQUIT',
}

function account(name: string): User | undefined {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${name}:`))
  const [, , uid, gid] = line?.split(':') ?? []
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) }
}
