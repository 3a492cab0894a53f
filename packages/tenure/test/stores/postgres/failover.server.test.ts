/**
 * Commits that are visible but that a failover would lose: their wait for the standby was canceled, or they were
 * released from it.
 */
import { deepEqual, equal, rejects } from 'node:assert/strict'
import { Client, Pool } from 'pg'
import postgresJs from 'postgres'
import { expect, onTestFinished, test, vi } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { openPair, promote } from '../../../../../test/servers/postgres-pair.ts'
import { pgbouncerFor, postgres } from '../../../../../test/servers/postgres.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { start } from '../../../../../test/servers/server.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { AcquireClaim, LeaseRecord, Outcome } from '../../../src/engine/lease-store.ts'
import * as stores from '../../../src/stores/postgres/index.ts'
import { postgresFailoverMutations } from './mutants.ts'

const call = { signal: new AbortController().signal, timeoutMs: 20_000 }
const soon = { ...call, timeoutMs: 500 }

function claimOf(election: string): AcquireClaim {
  return { election, holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }
}

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`the call was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

async function connectTo(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** The clients of `pg`, in each form that the store accepts. */
const clients: Readonly<Record<string, (url: string) => Promise<stores.PostgresStoreOptions>>> = {
  'a dedicated connection': async (url) => ({ connect: () => connectTo(url) }),
  async 'a pool'(url) {
    const client = new Pool({ connectionString: url, max: 2 })
    client.on('error', () => {})
    onTestFinished(() => client.end())
    return { client }
  },
  async 'a client'(url) {
    const client = await connectTo(url)
    onTestFinished(() => client.end())
    return { client }
  },
}

/** These clients do not forward warnings. They detect a released commit, but not a canceled one. */
const quietClients: typeof clients = {
  async 'the sql of postgres'(url) {
    const client = postgresJs(url, { max: 1 })
    onTestFinished(() => client.end({ timeout: 0 }))
    return { client }
  },
}

type Pair = Awaited<ReturnType<typeof openPair>>
type Interrupt = (pair: Pair) => Promise<void>

const cancelled: Interrupt = (pair) => pair.cancelCommit()
const released: Interrupt = (pair) => pair.releaseCommit()

const records = `select election, record from tenure_leases order by election`

async function check(
  { postgresStore }: Pick<typeof stores, 'postgresStore'>,
  interrupt: Interrupt,
  ways = Object.entries(clients),
) {
  const pair = await openPair()
  const { primary, link, admin, settle, follow, waitUntilSynchronous } = pair
  const standby = await follow()
  await settle('standby')
  await waitUntilSynchronous()
  for (const [name, optionsOn] of ways) {
    const store = postgresStore(await optionsOn(primary.url))
    onTestFinished(() => store.close?.())
    const [renewed, acquired] = [claimOf(`renewed by ${name}`), claimOf(`acquired by ${name}`)]
    const record = recordOf(await store.acquire(renewed, call))

    link.set('hold')
    for (const write of [() => store.renew(held(record), call), () => store.acquire(acquired, call)]) {
      const isUnknown = rejects(write(), { code: 'BACKEND_UNAVAILABLE', retryable: true })
      await Promise.all([isUnknown, interrupt(pair)])
    }
    // The record is visible, but the candidate itself must not lead because of it.
    equal((await admin.query(records)).rows.filter(({ election }) => election === acquired.election).length, 1)
    await rejects(store.read(acquired.election, soon), { code: 'TIMEOUT' })
    await rejects(store.acquire(acquired, soon), { code: 'TIMEOUT' })

    link.set('pass')
    equal(recordOf(await store.acquire(acquired, call)).term, 1)
    // The renewal is also applied, under a version that its holder does not know.
    const late = await store.renew(held(record), call)
    equal(late.ok, false)
    equal(late.record?.attempt, record.attempt)
  }
  const { rows } = await admin.query(records)
  await primary.kill('SIGKILL')
  await promote(standby)
  const successor = await connectTo(standby.url)
  onTestFinished(() => successor.end())
  deepEqual((await successor.query(records)).rows, rows)
}

/** Delays the answer of a released commit until the server is configured as it was before the write. */
async function checkLateAnswer({ postgresStore }: Pick<typeof stores, 'postgresStore'>) {
  const { primary, link, settle, follow, waitUntilSynchronous, releaseCommit } = await openPair()
  await follow()
  await settle('standby')
  await waitUntilSynchronous()
  const proxy = await startProxy(primary.port)
  onTestFinished(() => proxy.stop())
  const url = primary.url.replace(`:${primary.port}`, `:${proxy.port}`)
  const store = postgresStore({ connect: () => connectTo(url) })
  onTestFinished(() => store.close?.())
  const record = recordOf(await store.acquire(claimOf('late'), call))
  link.set('hold')
  proxy.set('hold', 'to-client')
  const isUnknown = rejects(store.renew(held(record), call), { code: 'BACKEND_UNAVAILABLE', retryable: true })
  await releaseCommit()
  proxy.set('pass', 'to-client')
  await isUnknown
}

/** Each test starts a server and copies it, which takes a long time on a busy machine. */
vi.setConfig({ testTimeout: 120_000 })

describeWithPrograms([postgres.program], 'postgresStore with a synchronous standby', () => {
  test('a commit whose wait for the standby was canceled is not confirmed, and its record is not shown before the standby has it', () =>
    check(stores, cancelled))

  test('a commit that was released from its wait is not confirmed, and its record is not shown before the standby has it', () =>
    check(stores, released, Object.entries({ ...clients, ...quietClients })))

  test('a released commit is not confirmed even if the server waits for the standby again before the answer arrives', () =>
    checkLateAnswer(stores))

  test.for(postgresFailoverMutations)('the checks catch the mutant: $name', async ({ by, ...mutation }) => {
    const mutant = await loadMutant<{ stores: typeof stores }>(mutation, { stores: 'stores/postgres/index.ts' })
    const one = Object.entries(clients).slice(0, 1)
    const checks = {
      cancelled: () => check(mutant.stores, cancelled, one),
      released: () => check(mutant.stores, released, one),
      late: () => checkLateAnswer(mutant.stores),
    }
    expect(await passes(checks[by])).toBe(false)
  })
})

describeWithPrograms([postgres.program, programs.pgbouncer], 'postgresStore behind a pooler, with a standby', () => {
  test('a commit can be confirmed on another connection of the pooler, and a commit that was released from its wait is not confirmed', async () => {
    const { primary, admin, settle, follow, waitUntilSynchronous, link, releaseCommit } = await openPair()
    const pooler = await start(pgbouncerFor(primary))
    onTestFinished(() => pooler.stop())
    await follow()
    await settle('standby')
    await waitUntilSynchronous()
    const [client, other] = await Promise.all([connectTo(pooler.url), connectTo(pooler.url)])
    onTestFinished(async () => void (await Promise.all([client.end(), other.end()])))
    // Two connections of the pooler have reloaded the configuration at different times, both long enough ago.
    const untilSettled = `select pg_sleep(1.2 - least(1, extract(epoch from clock_timestamp() - pg_conf_load_time())))`
    await Promise.all([client, other].map((one) => one.query(untilSettled)))
    const backends: (string | undefined)[] = []
    const query = async (text: string, values: (string | null)[]) => {
      const isLook = values.length === 0 && text.includes('waited')
      // The pooler lends the most recently returned connection, so this takes the connection that has just written.
      if (isLook) await other.query('begin')
      const answer = await client.query(text, values)
      if (isLook) await other.query('rollback')
      const waited: unknown = answer.rows[0]?.waited
      if (typeof waited === 'string') backends.push(waited.split(' ')[0])
      return answer
    }
    const store = stores.postgresStore({ client: { query } })
    const record = recordOf(await store.acquire(claimOf('pooled'), call))
    const renewed = recordOf(await store.renew(held(record), call))
    equal(backends.length, 4)
    equal(new Set(backends).size, 2)
    link.set('hold')
    const isUnknown = rejects(store.renew(held(renewed), call), { code: 'BACKEND_UNAVAILABLE', retryable: true })
    await Promise.all([isUnknown, releaseCommit()])
    equal((await admin.query(records)).rows.length, 1)
  })
})
