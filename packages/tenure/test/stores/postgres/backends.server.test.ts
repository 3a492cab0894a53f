/** Abandoned calls must not occupy backends of PostgreSQL: other programs would be refused a connection. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { Client, Pool } from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { loadMutant, type Mutation } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { observeOutage } from '../../../../../test/servers/count-backends.ts'
import { openPair } from '../../../../../test/servers/postgres-pair.ts'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { Elector } from '../../../src/engine/elector.ts'
import * as stores from '../../../src/stores/postgres/index.ts'

const outageMs = 20_000
const application_name = 'tenure'

async function connectTo(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString, application_name })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Two candidates have their own connection, and the third uses a pool. */
function optionsOf(url: string, index: number): stores.PostgresStoreOptions {
  if (index < 2) return { connect: () => connectTo(url) }
  const client = new Pool({ connectionString: url, application_name, max: 20 })
  client.on('error', () => {})
  onTestFinished(() => client.end())
  return { client }
}

async function checkOutage({ postgresStore }: Pick<typeof stores, 'postgresStore'>): Promise<void> {
  const { primary, admin, link, settle, follow, waitUntilSynchronous } = await openPair()
  await follow()
  await settle('standby')
  await waitUntilSynchronous()
  const electors = Array.from({ length: 3 }, (_, index) => {
    const store = postgresStore(optionsOf(primary.url, index))
    onTestFinished(() => store.close?.())
    const elector = new Elector({ store, election: 'payments', identity: `candidate ${index}`, leaseDurationMs: 3_000 })
    onTestFinished(() => elector.stop())
    elector.start()
    return elector
  })
  const isLed = () => electors.some((elector) => elector.isLeader())
  await vi.waitUntil(isLed, { timeout: 20_000 })
  link.set('hold')
  const { mostBackends, tried, refused } = await observeOutage(admin, primary.url, outageMs)
  equal(refused, 0)
  ok(tried > 5)
  ok(mostBackends <= 15, `there were ${mostBackends} backends`)
  equal(isLed(), false)
  link.set('pass')
  await vi.waitUntil(isLed, { timeout: 30_000 })
}

async function checkLockedRow({ postgresStore }: Pick<typeof stores, 'postgresStore'>): Promise<void> {
  const { primary, admin } = await openPair()
  let own: Client | undefined
  const store = postgresStore({ connect: async () => (own = await connectTo(primary.url)) })
  onTestFinished(() => store.close?.())
  const claim = { election: 'payments', holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0 }
  const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
  const granted = await store.acquire({ ...claim, metadata: {} }, call)
  ok(granted.ok)
  const holder = await admin.connect()
  onTestFinished(() => holder.release(true))
  await holder.query('begin')
  await holder.query('update tenure_leases set record = record')
  const soon = { ...call, timeoutMs: 500 }
  for (let tries = 0; tries < 3; tries++) {
    await Promise.allSettled([store.renew(held(granted.record), soon)])
    // The backend stops waiting by itself while the lock is still held.
    const waiting = `select pid from pg_stat_activity where wait_event_type = 'Lock'`
    const hasLeft = async () => (await admin.query(waiting)).rows.length === 0
    ok(await vi.waitUntil(hasLeft, { timeout: 5_000 }).catch(() => false), 'a backend is still waiting')
  }
  await holder.query('rollback')
  const { ok: isRenewed } = await store.renew(held(granted.record), call)
  equal(isRenewed, true)
  // A pooler may lend the connection to other clients.
  deepEqual((await own?.query('show lock_timeout'))?.rows, [{ lock_timeout: '0' }])
}

const mutations: readonly Mutation[] = [
  {
    name: 'a statement waits for a lock as long as the server allows',
    file: '../../internal/src/postgres-waits.ts',
    find: "set_config('lock_timeout', ${milliseconds}, true)",
    replace: "set_config('lock_timeout', left(${milliseconds}, 0) || '0', true)",
  },
  {
    name: 'a connection keeps the lock timeout of a statement',
    file: '../../internal/src/postgres-waits.ts',
    find: '${milliseconds}, true)',
    replace: '${milliseconds}, false)',
  },
]

describeWithPrograms([postgres.program], 'backends of postgresStore', () => {
  test(
    'abandoned calls do not accumulate backends while the standby is away, so other programs get connections',
    () => checkOutage(stores),
    120_000,
  )

  test('a backend stops waiting by itself while another session holds the row', () => checkLockedRow(stores))

  test.for(mutations)('the check catches the mutant: $name', async (mutation) => {
    const mutant = await loadMutant<{ stores: typeof stores }>(mutation, { stores: 'stores/postgres/index.ts' })
    expect(await passes(() => checkLockedRow(mutant.stores))).toBe(false)
  })
})
