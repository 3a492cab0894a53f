import { randomUUID } from 'node:crypto'
import { openPostgresStatements } from 'tenure/internal/postgres'
import { expect, onTestFinished, test } from 'vitest'
import { asWhole, postgres } from '../../../../test/servers/postgres.ts'
import { startProxy } from '../../../../test/servers/proxy.ts'
import { describeWith, describeWithPrograms } from '../../../../test/servers/suite.ts'
import { Journal } from '../../src/storage/journal.ts'
import { PostgresStorageServer } from '../../src/storage/postgres-server.ts'
import { ServerStorage } from '../../src/storage/server-storage.ts'
import { batchAfter, read } from './data-directories.ts'
import { failoverChecks } from './failover.ts'
import { newTable, openPostgres } from './postgres-storage-fixture.ts'

const storages = { PostgresStorageServer, ServerStorage }

describeWithPrograms([postgres.program], 'a storage in PostgreSQL with a standby', () => {
  for (const [name, check] of Object.entries(failoverChecks)) {
    test(name, () => check({ ...storages, openPostgresStatements }))
  }
})

describeWith(postgres, 'a storage in PostgreSQL that fails', (server) => {
  test('a connection to PostgreSQL that is cut during a commit leaves all of the batch or nothing', async () => {
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    const table = newTable()
    const direct = await openPostgres(storages, server().url, table)
    const behind = await openPostgres(storages, server().url.replace(`:${server().port}`, `:${proxy.port}`), table)
    const outcomes = new Set<string>()
    for (let round = 0; round < 40; round++) {
      const head = await direct.head()
      const groups = Array.from({ length: 200 }, (_, index) => ({ id: `g${index}`, record: { term: round + 1 } }))
      const batch = batchAfter(head, groups)
      const sent = proxy.sent
      const outcome = behind.append(head, batch).catch(() => 'unknown')
      while (proxy.sent === sent) await new Promise<void>((resolve) => void setImmediate(resolve))
      for (let turns = 0; turns < round; turns++) await new Promise<void>((resolve) => void setImmediate(resolve))
      proxy.reset()
      const heard = await outcome
      const isGiven = (await direct.append(head, batchAfter(head, []))) === 'done'
      if (!isGiven) expect(await direct.append(head, batch)).toBe('done')
      outcomes.add(`${heard} ${isGiven ? 'lost' : 'there'}`)
      const terms = new Set((await read(direct)).map(({ record }) => record.term))
      expect(terms.size).toBeLessThanOrEqual(1)
      expect(terms.has(round + 1)).toBe(!isGiven)
    }
    expect(outcomes).not.toContain('done lost')
    expect([...outcomes].filter((one) => one.startsWith('unknown')).length).toBeGreaterThan(0)
  })

  test('a primary that is killed and restarted has everything that it confirmed', async () => {
    const table = newTable()
    const storage = await openPostgres(storages, server().url, table)
    const confirmed = new Map<string, number>()
    const recordNow = (id: string) => ({ term: confirmed.get(id) ?? 0 })
    const journal = new Journal(storage, await storage.head(), { newId: () => randomUUID(), recordNow })
    const over = new AbortController()
    const writer = async (id: string) => {
      for (let term = 1; !over.signal.aborted; term++) {
        await journal.write(id, { term }).then(
          () => confirmed.set(id, term),
          () => new Promise<void>((resolve) => void setTimeout(resolve, 50)),
        )
      }
    }
    const writing = ['a', 'b', 'c'].map(writer)
    for (let kills = 0; kills < 3; kills++) {
      const before = confirmed.get('a') ?? 0
      await expect.poll(() => confirmed.get('a') ?? 0, { timeout: 20_000 }).toBeGreaterThan(before + 5)
      await asWhole(server()).restart('SIGKILL')
    }
    const before = confirmed.get('a') ?? 0
    await expect.poll(() => confirmed.get('a') ?? 0, { timeout: 20_000 }).toBeGreaterThan(before)
    over.abort()
    await Promise.all(writing)
    expect(journal.fenced).toBeUndefined()
    const found = new Map((await read(storage)).map(({ id, record }) => [id, record.term]))
    for (const [id, term] of confirmed) expect(found.get(id)).toBeGreaterThanOrEqual(term)
  })
})
