import { readFileSync } from 'node:fs'
import { isTenureError, optionError, show, TenureError } from '../../common/errors.ts'
import type { Environment } from '../../clients/http/environment.ts'
import { messageOf } from '@tenure/internal/message'
import { nearest } from '@tenure/internal/nearest'
import { loadDriver } from '../../store-kit/load-package.ts'
import { failureOf } from './failures.ts'
import { defaultTable } from './schema.ts'
import type { PostgresNotifyingClient } from './session.ts'

/** The part of the package `pg` that is used. */
interface PostgresDriver {
  readonly Client: new (config: object) => DriverClient
}

type DriverClient = PostgresNotifyingClient & { connect(): Promise<unknown> }

/** Limits a connection attempt that no call waits for anymore. Calls end by their own deadlines. */
const connectionTimeoutMillis = 10_000

/** Parameters that a URL may contain: the table, and those that the client supports. */
const parameters =
  'table host port user password options client_encoding application_name fallback_application_name ssl sslmode sslrootcert sslcert sslkey sslnegotiation uselibpqcompat statement_timeout lock_timeout query_timeout idle_in_transaction_session_timeout'.split(
    ' ',
  )

/**
 * Parameters of PostgreSQL's own programs that the client ignores and hosting providers put into URLs. None of them
 * selects a server or database.
 */
const ignoredParameters =
  'channel_binding connect_timeout target_session_attrs tcp_user_timeout keepalives keepalives_idle keepalives_interval keepalives_count'.split(
    ' ',
  )

/**
 * Returns the table that a URL names, and a function that opens connections. Parts that the URL omits come from
 * PostgreSQL's environment variables, such as PGPASSWORD and PGSSLMODE.
 */
export async function connectionTo(url: URL, environment: Environment) {
  checkParameters(url)
  const { Client } = (await loadDriver('pg')) as PostgresDriver
  const table = url.searchParams.get('table') ?? undefined
  const connect = async () => {
    const password = passwordFor(url, environment)
    const connectionString = withEnvironment(url, password.text, environment)
    const client = new Client({
      connectionString,
      connectionTimeoutMillis,
      application_name: 'tenure',
      keepAlive: true,
    })
    // Without a listener, losing an idle connection would end the process.
    client.on('error', () => {})
    try {
      await client.connect()
    } catch (error) {
      // Otherwise the server would wait for the rest of an abandoned login.
      void client.end?.().catch(() => {})
      throw withPasswordSource(password.source, failureOf(error, table ?? defaultTable))
    }
    return client
  }
  return { table, connect }
}

/**
 * Rejects unknown parameters. A misspelled `table` would be ignored, and candidates with different tables would all
 * lead.
 */
function checkParameters({ searchParams, hash }: URL): void {
  const names = [...searchParams.keys()]
  const unknown = names.find((name) => ![...parameters, ...ignoredParameters].includes(name))
  if (unknown !== undefined) {
    const meant = nearest(unknown, parameters)
    const advice = meant === undefined ? `It takes ${parameters.join(', ')}.` : `Did you mean "${meant}"?`
    throw optionError({ option: 'store', rule: `has a parameter ${show(unknown)}, which is not supported`, advice })
  }
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw optionError({ option: 'store', rule: `has the parameter "${twice}" twice` })
  if (hash !== '') throw optionError({ option: 'store', rule: 'has a "#", which must be "%23" in a URL' })
}

/** Adds the source of a rejected password, because there may be several sources. */
function withPasswordSource(source: string, error: Error): Error {
  // A missing permission does not depend on the password.
  const isRefused = isTenureError(error) && error.code === 'UNAUTHORIZED' && error.option === undefined
  if (!isRefused || source === '') return error
  return new TenureError(error.code, `${error.message} The password came from ${source}.`, { cause: error.cause })
}

/**
 * Fills in the URL from the environment. The client reads PostgreSQL's variables of this process by itself, but neither
 * Tenure's own variables nor another environment. Called for every connection, because passwords and certificates are
 * rotated.
 */
function withEnvironment(url: URL, password: string, environment: Environment): string {
  const whole = new URL(url)
  whole.searchParams.delete('table')
  if (whole.username === '') whole.username = encodeURIComponent(environment['TENURE_STORE_USER'] ?? '')
  if (whole.password === '') whole.password = encodeURIComponent(password)
  const files = { sslrootcert: 'TENURE_CA_FILE', sslcert: 'TENURE_CERT_FILE', sslkey: 'TENURE_KEY_FILE' }
  for (const [parameter, variable] of Object.entries(files)) {
    const path = environment[variable]
    if (path && !whole.searchParams.has(parameter)) whole.searchParams.set(parameter, path)
  }
  const isVerified = whole.searchParams.has('sslrootcert') && !whole.searchParams.has('sslmode')
  if (isVerified) whole.searchParams.set('sslmode', 'verify-full')
  return whole.href
}

interface Password {
  readonly text: string
  /** Where the password comes from, for messages. Empty if there is no password. */
  readonly source: string
}

function passwordFor(url: URL, environment: Environment): Password {
  if (url.password !== '' || url.searchParams.has('password')) return { text: '', source: 'the URL' }
  const { TENURE_STORE_PASSWORD: own, TENURE_STORE_PASSWORD_FILE: path, PGPASSWORD: theirs } = environment
  if (!path) {
    const source = own ? 'TENURE_STORE_PASSWORD' : theirs ? 'PGPASSWORD' : ''
    return { text: own || theirs || '', source }
  }
  try {
    return { text: readFileSync(path, 'utf8').trimEnd(), source: `the file ${path}` }
  } catch (cause) {
    const text = `The file ${path} (TENURE_STORE_PASSWORD_FILE) cannot be read: ${messageOf(cause)}.`
    throw new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true, cause })
  }
}
