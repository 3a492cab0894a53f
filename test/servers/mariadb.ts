import { execFileSync } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'
import { unprivileged } from './unprivileged.ts'

const url = (port: number) => `mysql://root@127.0.0.1:${port}/tenure`

/** MariaDB, with the user `root` without a password and an empty database `tenure`. */
export const mariadb: ServerKind = mariadbWith({})

/** MariaDB with additional settings, as in its configuration file. */
export function mariadbWith(settings: Readonly<Record<string, string | number>>): ServerKind {
  return {
    name: 'MariaDB',
    program: programs.mariadb,
    user: () => unprivileged('mysql'),
    prepare({ path, directory, user }) {
      const share = shareOf(path)
      for (const folder of ['data', 'tmp']) {
        mkdirSync(join(directory, folder))
        if (user) chownSync(join(directory, folder), user.uid, user.gid)
      }
      const create = ['create database mysql;', 'create database tenure;', 'use mysql;', '']
      const files = ['mysql_system_tables.sql', 'mysql_system_tables_data.sql']
      const input = [create.join('\n'), ...files.map((file) => readFileSync(join(share, file), 'utf8'))].join('')
      // This is what mariadb-install-db does. That script also needs programs of the client's package.
      const local = input.replace(/^.*@current_hostname.*\n/gm, '')
      execFileSync(path, ['--no-defaults', '--bootstrap', ...small, ...placesOf(directory, share)], {
        cwd: directory,
        input: local,
        stdio: 'pipe',
        ...user,
      })
    },
    args({ path, directory, port }) {
      const own = {
        port,
        'bind-address': '127.0.0.1',
        socket: join(directory, 'socket'),
        'pid-file': join(directory, 'pid'),
        'skip-name-resolve': 'on',
        ...settings,
      }
      const given = Object.entries(own).map(([name, value]) => `--${name}=${value}`)
      return ['--no-defaults', ...small, ...placesOf(directory, shareOf(path)), ...given]
    },
    async probe({ port }) {
      const connection = await createConnection({ uri: url(port), connectTimeout: 1_000 })
      connection.on('error', () => {})
      await connection.end()
    },
    url,
    stopSignal: 'SIGKILL',
  }
}

/** Settings for a small server that starts fast. */
const small = [
  'innodb-buffer-pool-size=8M',
  'innodb-log-file-size=4M',
  'innodb-buffer-pool-dump-at-shutdown=off',
  'innodb-buffer-pool-load-at-startup=off',
  'key-buffer-size=64K',
  'aria-pagecache-buffer-size=1M',
].map((setting) => `--${setting}`)

/** A server that starts deletes the temporary tables in its folder for them, even those of a running server. */
function placesOf(directory: string, share: string): string[] {
  const [data, temporary] = [join(directory, 'data'), join(directory, 'tmp')]
  return [`--datadir=${data}`, `--tmpdir=${temporary}`, `--lc-messages-dir=${share}`]
}

/** The folder with the server's messages and SQL files. */
function shareOf(path: string): string {
  const folder = dirname(dirname(realpathSync(path)))
  const folders = [join(folder, 'share/mysql'), join(folder, 'share')]
  const found = folders.find((each) => existsSync(join(each, 'mysql_system_tables.sql')))
  if (found === undefined) throw new Error(`${path} has no SQL files in ${folders.join(' or ')}`)
  return found
}
