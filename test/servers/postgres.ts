import { execFileSync } from 'node:child_process'
import { chownSync, readdirSync, readFileSync, readlinkSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { programs } from './programs.ts'
import type { RunningServer, ServerKind } from './server.ts'
import { unprivileged } from './unprivileged.ts'

const url = (port: number) => `postgres://postgres@127.0.0.1:${port}/postgres`

/** PostgreSQL. */
export const postgres: ServerKind = {
  name: 'PostgreSQL',
  program: programs.postgres,
  user: () => unprivileged('postgres'),
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

/** A server with one process per connection. Signals go to all of its processes. */
export function asWhole(server: RunningServer): Pick<RunningServer, 'port' | 'restart' | 'pause' | 'resume'> {
  const signalAll = (signal: NodeJS.Signals, pids: readonly number[]) => {
    for (const pid of pids) {
      try {
        process.kill(pid, signal)
      } catch {
        // The process has already ended.
      }
    }
  }
  const family = () => [server.pid, ...childrenOf(server.pid)]
  return {
    port: server.port,
    pause: () => signalAll('SIGSTOP', family()),
    resume: () => signalAll('SIGCONT', family()),
    async restart(signal, options) {
      const children = childrenOf(server.pid)
      const killed = server.kill(signal)
      signalAll(signal, children)
      await killed
      // The next server refuses to start while any process still has the shared memory. The server may have started
      // one after its children were listed, and a killed process takes a moment to end.
      for (;;) {
        const left = processesIn(server.directory)
        if (left.length === 0) break
        signalAll('SIGKILL', left)
        await delay(5)
      }
      await delay(options?.downForMs ?? 0)
      await server.start()
    },
  }
}

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return text === '' ? [] : text.split(' ').map(Number)
}

/** Processes whose working directory is in this directory. */
function processesIn(directory: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map(Number).filter((pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`).startsWith(`${directory}/`)
    } catch {
      // The process has ended.
      return false
    }
  })
}

/** A standby that replicates from `primary` and can be promoted. Its name is `standby`. */
export function standbyOf(primary: { readonly port: number }): ServerKind {
  return {
    ...postgres,
    name: 'a standby of PostgreSQL',
    prepare({ path, directory, user }) {
      const source = `host=127.0.0.1 port=${primary.port} user=postgres application_name=standby`
      const args = ['-D', join(directory, 'data'), '-d', source, '-R', '-X', 'stream', '-c', 'fast', '--no-sync']
      // The server may be a link to a file elsewhere.
      execFileSync(join(dirname(realpathSync(path)), 'pg_basebackup'), args, { cwd: directory, stdio: 'pipe', ...user })
    },
  }
}

/** pgbouncer in front of a PostgreSQL. Each transaction may use a different one of its few connections. */
export function pgbouncerFor(target: { readonly port: number }): ServerKind {
  return {
    name: 'pgbouncer',
    program: programs.pgbouncer,
    user: () => unprivileged('postgres'),
    prepare({ directory, port, user }) {
      const settings = {
        listen_addr: '127.0.0.1',
        listen_port: port,
        unix_socket_dir: '',
        auth_type: 'any',
        pool_mode: 'transaction',
        default_pool_size: 3,
        ignore_startup_parameters: 'extra_float_digits',
      }
      const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
      const database = `postgres = host=127.0.0.1 port=${target.port} dbname=postgres user=postgres`
      const file = join(directory, 'pgbouncer.ini')
      writeFileSync(file, ['[databases]', database, '[pgbouncer]', ...lines, ''].join('\n'))
      if (user) chownSync(file, user.uid, user.gid)
    },
    args: ({ directory }) => [join(directory, 'pgbouncer.ini')],
    probe: postgres.probe,
    url,
    stopSignal: 'SIGQUIT',
  }
}
