/** Commits that are there, and that a failover would lose: their wait for the standby was cancelled. */
import { deepEqual, equal, rejects } from 'node:assert/strict'
import { Client, Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes.ts'
import { openPair, promote } from '../../../../../test/servers/postgres-pair.ts'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../src/conformance/scene.ts'
import type { AcquireClaim, LeaseRecord, Outcome } from '../../../src/lease-store.ts'
import * as stores from '../../../src/stores/postgres.ts'
import { postgresFailoverMutations } from '../../stores/postgres-mutants.ts'

const call = { signal: new AbortController().signal, timeoutMs: 20_000 }
const soon = { ...call, timeoutMs: 500 }

function claimOf(election: string): AcquireClaim {
  return { election, holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }
}

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`it was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

async function connectTo(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** The clients of `pg`, in each way in which the store takes them. */
const clients: Readonly<Record<string, (url: string) => Promise<stores.PostgresStoreOptions>>> = {
  'a connection of its own': async (url) => ({ connect: () => connectTo(url) }),
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

const records = `select election, record from tenure_leases order by election`

async function check({ postgresStore }: Pick<typeof stores, 'postgresStore'>, ways = Object.entries(clients)) {
  const { primary, link, admin, settle, follow, waitUntilSynchronous, cancelCommit } = await openPair()
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
      await Promise.all([isUnknown, cancelCommit()])
    }
    // Everybody sees it, and the candidate itself must not lead by that.
    equal((await admin.query(records)).rows.filter(({ election }) => election === acquired.election).length, 1)
    await rejects(store.read(acquired.election, soon), { code: 'TIMEOUT' })
    await rejects(store.acquire(acquired, soon), { code: 'TIMEOUT' })

    link.set('pass')
    equal(recordOf(await store.acquire(acquired, call)).term, 1)
    // The renewal is there too, under a version that its holder has not heard of.
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

describeWithPrograms([postgres.program], 'postgresStore with a standby that is waited for', () => {
  test('does not take a commit for done whose wait was cancelled, nor its record for a grant before the standby has it', () =>
    check(stores))

  test.for(postgresFailoverMutations)('where it is noticed that $name', async (mutation) => {
    const mutant = await loadMutant<{ stores: typeof stores }>(mutation, { stores: 'stores/postgres.ts' })
    expect(await passes(() => check(mutant.stores, Object.entries(clients).slice(0, 1)))).toBe(false)
  })
})
