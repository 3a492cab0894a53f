import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { PGlite } from '@electric-sql/pglite'
import { neon, neonConfig } from '@neondatabase/serverless'
import { drizzle } from 'drizzle-orm/node-postgres'
import knex from 'knex'
import { Client, Pool, type DatabaseError } from 'pg'
import postgresJs from 'postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { AcquireClaim, LeaseRecord, LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import { postgresStore, type PostgresClient } from '../../../src/stores/postgres/index.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 5_000 }

const claim: AcquireClaim = {
  election: 'payments',
  holder: 'ada',
  attempt: 'first',
  leaseDurationMs: 15_000,
  afterTerm: 0,
  metadata: { zone: 'Zürich ? :p1 $1' },
}

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`it was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

/** Calls every method once, with two stores. */
async function goThrough(one: LeaseStore, two: LeaseStore): Promise<void> {
  const first = recordOf(await one.acquire(claim, call))
  expect(await two.read(claim.election, call)).toEqual(first)
  expect(await two.acquire({ ...claim, attempt: 'other' }, call)).toEqual({ ok: false, record: first, highestTerm: 1 })
  const renewed = recordOf(await one.renew(held(first), call))
  expect(await two.release(held(first), call)).toMatchObject({ ok: false, record: renewed })
  recordOf(await one.release(held(renewed), call))
  expect(recordOf(await two.acquire({ ...claim, attempt: 'other', afterTerm: 1 }, call)).term).toBe(2)
  expect(await one.list?.({}, call)).toMatchObject({ records: [{ term: 2, metadata: claim.metadata }] })
}

/** Answers over HTTP as Neon does, backed by a PostgreSQL. */
async function startNeonFront(connectionString: string): Promise<string> {
  const pool = new Pool({ connectionString })
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { query: text, params: values } = (await json(request)) as { query: string; params: string[] }
    try {
      const { rows, fields, command, rowCount } = await pool.query({ text, values, rowMode: 'array' })
      response.end(JSON.stringify({ rows, fields, command, rowCount, rowAsArray: true }))
    } catch (error) {
      const { message, code } = error as DatabaseError
      response.writeHead(400).end(JSON.stringify({ message, code }))
    }
  }
  const front = createServer((request, response) => void answer(request, response)).listen(0, '127.0.0.1')
  await once(front, 'listening')
  onTestFinished(async () => {
    front.close()
    front.closeAllConnections()
    await pool.end()
  })
  return `http://127.0.0.1:${(front.address() as AddressInfo).port}/sql`
}

describeWith(postgres, 'postgresStore with other clients', (server) => {
  const clients: Record<string, () => PostgresClient | Promise<PostgresClient>> = {
    async 'a Client of pg'() {
      const client = new Client({ connectionString: server().url })
      onTestFinished(() => client.end())
      await client.connect()
      return client
    },
    'the sql of postgres'() {
      const sql = postgresJs(server().url, { max: 2, onnotice: () => {} })
      onTestFinished(() => sql.end())
      return sql
    },
    knex() {
      const db = knex({ client: 'pg', connection: server().url })
      onTestFinished(() => db.destroy())
      return {
        query: (text, values) =>
          db.raw(
            text.replace(/\$(\d+)/g, ':p$1'),
            Object.fromEntries(values.map((value, index) => [`p${index + 1}`, value])),
          ),
      }
    },
    drizzle() {
      const client = new Pool({ connectionString: server().url })
      onTestFinished(() => client.end())
      return drizzle({ client }).$client
    },
    async Neon() {
      neonConfig.fetchEndpoint = await startNeonFront(server().url)
      return neon('postgres://user:password@db.example.com/database')
    },
    async PGlite() {
      const database = new PGlite()
      onTestFinished(() => database.close())
      await database.waitReady
      return database
    },
  }
  // PGlite first compiles a whole server, which takes several seconds of CPU time.
  test.each(Object.entries(clients))(
    'every method of postgresStore works with %s',
    { timeout: 180_000 },
    async (name, clientOf) => {
      const client = await clientOf()
      const table = `leases_${name.toLowerCase().replace(/\W/g, '_')}`
      await goThrough(postgresStore({ client, table }), postgresStore({ client, table }))
    },
  )

  describe('postgresStore watches with a connection of postgres', () => {
    const open = () => {
      const connect = async () => postgresJs(server().url, { max: 1, onnotice: () => {} })
      return postgresStore({ connect, table: 'conforming' })
    }
    const remove = async (election: string) => {
      const sql = postgresJs(server().url, { max: 1 })
      await sql`delete from conforming where election = ${election}`
      await sql.end()
    }
    const cases = storeConformance(() => ({ store: open(), open, remove }), { leaseDurationMs: 1_000 })
    // The other cases reveal nothing about a client that the test above does not reveal.
    const about = cases.filter(({ name }) => /watch|signal|closed/.test(name))
    for (const { name, run } of about) test.concurrent(name, run)
  })
})
