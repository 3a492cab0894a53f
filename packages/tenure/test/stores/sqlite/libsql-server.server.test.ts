import { setTimeout as delay } from 'node:timers/promises'
import { createClient } from '@libsql/client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { sqld } from '../../../../../test/servers/sqld.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { sqliteStore } from '../../../src/stores/sqlite/index.ts'
import { call, claimOf, granted, short } from './fixtures.ts'

describeWith(sqld, 'sqliteStore on a libSQL server', (server) => {
  let client: ReturnType<typeof createClient>
  beforeAll(() => {
    client = createClient({ url: server().url })
  })
  afterAll(() => client.close())
  const open = () => sqliteStore({ client })

  describe('sqliteStore conforms on a libSQL server', () => {
    const cases = storeConformance(
      () => ({
        store: open(),
        open,
        remove: async (election) =>
          void (await client.execute({ sql: 'DELETE FROM tenure_leases WHERE election = ?', args: [election] })),
        close: () => {},
      }),
      { leaseDurationMs: 1_000, patienceMs: 20_000 },
    )
    for (const { name, run } of cases) test.concurrent(name, { timeout: 120_000 }, run)
  })

  test('one of 16 racing candidates wins', async () => {
    const outcomes = await Promise.all(Array.from({ length: 16 }, () => open().acquire(claimOf(), call)))
    expect(outcomes.filter(({ ok }) => ok)).toHaveLength(1)
  })

  test('tenure doctor learns that this server may lose a confirmed write in a power failure', async () => {
    expect(await open().inspect(call)).toMatchObject([
      { risk: 'unsafe', text: expect.stringContaining('PRAGMA synchronous is NORMAL, below FULL') },
    ])
  })

  test('a paused server is a timeout, and a renewal succeeds after it', async () => {
    const store = open()
    const { record } = granted(await store.acquire(claimOf({ election: 'paused' }), call))
    server().pause()
    await expect(store.renew(held(record), short)).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
    server().resume()
    const outcome = await store.renew(held(record), call)
    // The first renewal may have been applied.
    expect(outcome.record).toMatchObject({ attempt: record.attempt, released: false })
  })

  test('a killed server keeps the lease and the term', async () => {
    const store = open()
    const { record } = granted(await store.acquire(claimOf({ election: 'killed' }), call))
    await server().restart('SIGKILL')
    const again = createClient({ url: server().url })
    onTestFinished(() => again.close())
    await delay(0)
    expect(await sqliteStore({ client: again }).read('killed', call)).toEqual(record)
  })
})
