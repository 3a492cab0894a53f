import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isTenureError } from '../../common/errors.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { loadDriver, missing } from '../../store-kit/load-package.ts'
import { findOnLocalFilesystem } from '../../store-kit/local-filesystem.ts'
import type { SqliteDatabase } from './client.ts'
import { sqliteStoreOn } from './index.ts'

/** The required form of a URL. */
export const sqliteUrlRule =
  'it must be "sqlite:///" with the absolute path of the database file, percent-encoded, optionally followed by "?table=NAME"'

type DatabaseConstructor = new (path: string, options: { readonly timeout: number }) => SqliteDatabase

/**
 * Opens the store in the file that a URL names, with its own connection. Undefined if the URL is invalid. The file is
 * opened by the first call, and created by the first one that asks for a lease.
 */
export async function openSqlite(url: string): Promise<InspectableStore | undefined> {
  const [, encoded = '', query] = /^sqlite:\/\/(\/[^?#]*[^?#/])(?:\?([^#]*))?$/i.exec(url) ?? []
  const path = pathOf(encoded)
  const { table, ...others } = Object.fromEntries(new URLSearchParams(query))
  if (path === undefined || Object.keys(others).length > 0) return undefined
  const DatabaseFile = await driver()
  const source = {
    isOwn: true,
    exists: () => existsSync(path),
    async client() {
      await findOnLocalFilesystem(dirname(path), false)
      // The store itself waits for locks.
      return new DatabaseFile(path, { timeout: 0 })
    },
  }
  return sqliteStoreOn(source, { table })
}

function pathOf(encoded: string): string | undefined {
  if (encoded === '') return undefined
  try {
    return fileURLToPath(`file://${encoded}`)
  } catch {
    return undefined
  }
}

const packages = ['better-sqlite3', 'libsql']

/** Returns the class of a connection: that of Node.js, or else that of a package that is installed. */
async function driver(): Promise<DatabaseConstructor> {
  const builtIn: unknown = process.getBuiltinModule('node:sqlite')
  if (typeof builtIn === 'object' && builtIn !== null) {
    return Reflect.get(builtIn, 'DatabaseSync') as DatabaseConstructor
  }
  for (const name of packages) {
    try {
      return (await loadDriver(name)) as unknown as DatabaseConstructor
    } catch (error) {
      const isMissing = isTenureError(error) && error.message.startsWith('This store needs')
      if (!isMissing) throw error
    }
  }
  throw missing('Node.js 22.13 or newer, or the package "better-sqlite3" or "libsql"', 'better-sqlite3')
}
