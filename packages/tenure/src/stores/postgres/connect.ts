import { readFileSync } from 'node:fs'
import { isTenureError, optionError, show, TenureError } from '../../errors.ts'
import type { Environment } from '../../http/environment.ts'
import { messageOf } from '@tenure/internal/message'
import { nearest } from '@tenure/internal/nearest'
import { loadDriver } from '../driver.ts'
import { failureOf } from './failures.ts'
import { defaultTable } from './schema.ts'
import type { PostgresNotifyingClient } from './session.ts'

/** What is used of the package `pg`. */
interface Driver {
  readonly Client: new (config: object) => DriverClient
}

type DriverClient = PostgresNotifyingClient & { connect(): Promise<unknown> }

/** Calls end by their own deadlines; this one ends a connection that nobody waits for any more. */
const connectionTimeoutMillis = 10_000

/** What a URL may hold: the table, and what the client takes. */
const parameters =
  'table host port user password options client_encoding application_name fallback_application_name ssl sslmode sslrootcert sslcert sslkey sslnegotiation uselibpqcompat statement_timeout lock_timeout query_timeout idle_in_transaction_session_timeout'.split(
    ' ',
  )

/** What PostgreSQL's own programs take, the client leaves aside, and hosters put into URLs. None of it says where. */
const leftAside =
  'channel_binding connect_timeout target_session_attrs tcp_user_timeout keepalives keepalives_idle keepalives_interval keepalives_count'.split(
    ' ',
  )

/**
 * What a URL names: the table, and a way to open connections. What the URL leaves out the variables of PostgreSQL give, such
 * as PGPASSWORD and PGSSLMODE.
 */
export async function connectionTo(url: URL, environment: Environment) {
  checkParameters(url)
  const { Client } = (await loadDriver('pg')) as Driver
  const table = url.searchParams.get('table') ?? undefined
  const connect = async () => {
    const password = passwordFor(url, environment)
    const connectionString = completed(url, password.text, environment)
    const client = new Client({
      connectionString,
      connectionTimeoutMillis,
      application_name: 'tenure',
      keepAlive: true,
    })
    // A connection that is lost while nobody waits for it would end the process.
    client.on('error', () => {})
    try {
      await client.connect()
    } catch (error) {
      // The server would wait for the rest of a log-in that nobody goes on with.
      void client.end?.().catch(() => {})
      throw naming(password.source, failureOf(error, table ?? defaultTable))
    }
    return client
  }
  return { table, connect }
}

/** A parameter that is ignored could be the table: two candidates would lead in two of them. */
function checkParameters({ searchParams, hash }: URL): void {
  const names = [...searchParams.keys()]
  const unknown = names.find((name) => ![...parameters, ...leftAside].includes(name))
  if (unknown !== undefined) {
    const meant = nearest(unknown, parameters)
    const advice = meant === undefined ? `It takes ${parameters.join(', ')}.` : `Did you mean "${meant}"?`
    throw optionError({ option: 'store', rule: `has a parameter ${show(unknown)}, which nothing uses`, advice })
  }
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw optionError({ option: 'store', rule: `has the parameter "${twice}" twice` })
  if (hash !== '') throw optionError({ option: 'store', rule: 'has a "#", which must be "%23" in a URL' })
}

/** Where a password came from that was refused: there may be several places. */
function naming(source: string, error: Error): Error {
  // A right that the role lacks does not depend on its password.
  const isRefused = isTenureError(error) && error.code === 'UNAUTHORIZED' && error.option === undefined
  if (!isRefused || source === '') return error
  return new TenureError(error.code, `${error.message} The password came from ${source}.`, { cause: error.cause })
}

/**
 * The client looks at the variables of this process by itself, but not at ours, nor at another environment. Asked again
 * for every connection: passwords and certificates are replaced now and then.
 */
function completed(url: URL, password: string, environment: Environment): string {
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
  /** Empty where there is none. */
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
    const text = `The file ${path}, which TENURE_STORE_PASSWORD_FILE names, cannot be read: ${messageOf(cause)}.`
    throw new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true, cause })
  }
}
