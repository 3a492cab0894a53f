import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { loadDriverSync } from '../../store-kit/load-package.ts'
import { findOnLocalFilesystem } from '../../store-kit/local-filesystem.ts'
import type { SqliteDatabase } from './client.ts'
import { sqliteStoreOn } from './server.ts'

/** The required form of a URL. */
export const sqliteUrlRule =
  'it must be "sqlite:///" with the absolute path of the database file, percent-encoded, optionally followed by "?table=NAME"'

type DatabaseConstructor = new (path: string, options: { readonly timeout: number }) => SqliteDatabase

/**
 * Opens the store in the file that a URL names, with its own connection. Undefined if the URL is invalid. The file is
 * opened by the first call, and created by the first one that asks for a lease.
 */
export function openSqlite(url: string): InspectableStore | undefined {
  const [, encoded = '', query] = /^sqlite:\/\/(\/[^?#]*[^?#/])(?:\?([^#]*))?$/i.exec(url) ?? []
  const path = pathOf(encoded)
  const { table, ...others } = Object.fromEntries(new URLSearchParams(query))
  if (path === undefined || Object.keys(others).length > 0) return undefined
  const Driver = driver()
  const source = {
    isOwn: true,
    place: `the database "${path}"`,
    // Unlike existsSync(), this fails if the directory is not accessible.
    exists: async () => (await isFound(dirname(path))) && isFound(path),
    async client() {
      await isFound(dirname(path))
      // The store itself waits for locks.
      return new Driver(path, { timeout: 0 })
    },
  }
  return sqliteStoreOn(source, { table })
}

function isFound(path: string): Promise<boolean> {
  return findOnLocalFilesystem(path, false)
}

function pathOf(encoded: string): string | undefined {
  if (encoded === '') return undefined
  try {
    return fileURLToPath(`file://${encoded}`)
  } catch {
    return undefined
  }
}

const need = 'This store needs Node.js 22.13 or newer, or a package that contains SQLite'
const instead = 'The package "libsql" works as well.'

/** Returns the class of a connection: that of Node.js, or else that of a package that is installed. */
function driver(): DatabaseConstructor {
  const builtIn: unknown = process.getBuiltinModule('node:sqlite')
  if (typeof builtIn === 'object' && builtIn !== null) {
    return Reflect.get(builtIn, 'DatabaseSync') as DatabaseConstructor
  }
  try {
    return loadDriverSync('better-sqlite3', need, instead) as DatabaseConstructor
  } catch (error) {
    try {
      return loadDriverSync('libsql', need, instead) as DatabaseConstructor
    } catch {
      throw error
    }
  }
}
