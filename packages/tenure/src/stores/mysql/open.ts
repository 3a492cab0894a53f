import { isIP } from 'node:net'
import { environmentFile, environmentTls, type Environment } from '../../clients/http/environment.ts'
import { provide, provideTls, type Provided } from '../../clients/http/provided.ts'
import { invalidOption, isTenureError, TenureError } from '../../common/errors.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { loadDriver } from '../../store-kit/load-package.ts'
import { failureOf } from './failures.ts'
import { mysqlStore } from './index.ts'
import { defaultTable } from './names.ts'
import { OwnPool, type DriverConnection } from './own-pool.ts'

/** The required form of a URL. */
export const mysqlUrlRule =
  'it must be "mysql://user:password@host:3306/database" (or "mariadb:"), percent-encoded, with one host and a database. Also allowed are "table" and "ssl-mode" (DISABLED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY)'

/** The part of the package `mysql2` that is used. */
interface MysqlDriver {
  createConnection(options: object): DriverConnection
}

/** Limits a connection attempt that no call waits for anymore. Calls end by their own deadlines. */
const connectTimeout = 10_000

const nameRule =
  'it needs a host name in the URL, because the package mysql2 cannot compare a certificate with an IP address. It is the default with a CA file. Use a name that is in the certificate, or ?ssl-mode=VERIFY_CA'

const modes = ['DISABLED', 'REQUIRED', 'VERIFY_CA', 'VERIFY_IDENTITY'] as const

interface Address {
  readonly host: string
  readonly port: number
  readonly user: string | undefined
  readonly database: string
  readonly password: Provided | undefined
  /** Where the password comes from, for messages. */
  readonly source: string
  readonly table: string | undefined
  readonly mode: (typeof modes)[number]
}

/**
 * Opens the store that a URL names, with its own connections. Parts that the URL omits come from the environment.
 * Undefined if the URL is invalid.
 */
export async function openMysql(url: string, environment: Environment): Promise<InspectableStore | undefined> {
  const address = addressOf(url, environment)
  if (!address) return undefined
  const { host, port, user, database, table, mode } = address
  // For an IP address, mysql2 looks for "localhost" in the certificate.
  if (mode === 'VERIFY_IDENTITY' && isIP(host) !== 0) throw invalidOption('ssl-mode', mode, nameRule)
  const { createConnection } = (await loadDriver('mysql2')) as MysqlDriver
  const open = async () => {
    // Read again for each connection, because passwords and certificates are rotated.
    const [password, tls] = await Promise.all([provide('password', address.password), tlsFor(mode, environment)])
    const login = { host, port, database, connectTimeout, ...(user !== undefined && { user }) }
    return createConnection({ ...login, ...(password !== undefined && { password }), ...(tls && { ssl: tls }) })
  }
  const explain = (error: unknown) => withPasswordSource(address.source, failureOf(error, table ?? defaultTable))
  const pool = new OwnPool(open, explain)
  const store = mysqlStore({ client: pool, table })
  return { ...store, close: async () => pool.close() }
}

function addressOf(url: string, environment: Environment): Address | undefined {
  const pattern =
    /^\w+:\/\/(?:([^@/?#]*)@)?(?:\[([0-9a-f:.%]+)\]|([^:,[\]/?#]+))(?::(\d{1,5}))?\/([^/?#]+)(?:\?([^#]*))?$/i
  const parts = pattern.exec(url)
  if (!parts) return undefined
  const [, login, bracketed, plain, port, database = '', query] = parts
  const parameters = [...new URLSearchParams(query)]
  const { table, 'ssl-mode': given, ...others } = Object.fromEntries(parameters)
  const isTwice = new Set(parameters.map(([name]) => name)).size < parameters.length
  const fallback = environment['TENURE_CA_FILE'] ? 'VERIFY_IDENTITY' : 'DISABLED'
  const mode = modes.find((name) => name === (given ?? fallback).toUpperCase())
  if (Object.keys(others).length > 0 || isTwice || !mode) return undefined
  try {
    const [user, password] = (login?.split(/:(.*)/s, 2) ?? []).map(decodeURIComponent)
    return {
      host: bracketed ?? plain ?? '',
      port: Number(port ?? 3_306),
      user: user || environment['TENURE_STORE_USER'] || undefined,
      database: decodeURIComponent(database),
      ...passwordFor(password, environment),
      table,
      mode,
    }
  } catch {
    // The URL has an incomplete percent-encoding.
    return undefined
  }
}

function passwordFor(given: string | undefined, environment: Environment): Pick<Address, 'password' | 'source'> {
  if (given) return { password: given, source: 'the URL' }
  const { TENURE_STORE_PASSWORD: own, TENURE_STORE_PASSWORD_FILE: path, MYSQL_PWD: theirs } = environment
  const file = environmentFile(environment, 'TENURE_STORE_PASSWORD_FILE')
  if (file) return { password: () => file().replace(/\r?\n$/, ''), source: `the file ${path}` }
  return { password: own || theirs || undefined, source: own ? 'TENURE_STORE_PASSWORD' : theirs ? 'MYSQL_PWD' : '' }
}

/** Adds the source of a rejected password, because there may be several sources. */
function withPasswordSource(source: string, error: Error): Error {
  if (source === '' || !isTenureError(error) || error.code !== 'UNAUTHORIZED') return error
  return new TenureError(error.code, `${error.message} The password came from ${source}.`, { cause: error.cause })
}

async function tlsFor(mode: Address['mode'], environment: Environment) {
  if (mode === 'DISABLED') return undefined
  const { ca, cert, key } = await provideTls(environmentTls(environment))
  const given = Object.entries({ ca, cert, key }).filter(([, text]) => text !== undefined)
  const isVerified = mode !== 'REQUIRED'
  return {
    ...Object.fromEntries(given),
    rejectUnauthorized: isVerified,
    verifyIdentity: mode === 'VERIFY_IDENTITY',
  }
}
