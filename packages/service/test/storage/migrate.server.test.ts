import { randomUUID } from 'node:crypto'
import { Elector, type Clock } from 'tenure'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { etcd } from '../../../../test/servers/etcd.ts'
import { postgres } from '../../../../test/servers/postgres.ts'
import { start, type RunningServer } from '../../../../test/servers/server.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { systemClock } from '../../src/common/clock.ts'
import { migrateData, restoreShared } from '../../src/storage/migrate.ts'
import { moveStorage } from '../../src/storage/move-storage.ts'
import { openSharedStorage } from '../../src/storage/open-storage.ts'
import { batchAfter, read, write } from './data-directories.ts'
import { moveChecks, type Place } from './move-checks.ts'
import { directoryPlace, serverPlace } from './move-places.ts'

const environment = {}
const options = { newId: randomUUID, clock: systemClock, environment }
const newName = () => `m_${randomUUID().replaceAll('-', '')}`

/** A timer that shortens long delays. */
const hurry =
  (setTimer: Clock['setTimer']): Clock['setTimer'] =>
  (ms, ...rest) =>
    setTimer(ms >= 20_000 ? 1_000 : ms, ...rest)

describeWithPrograms([etcd.program, postgres.program], 'moving data', () => {
  let servers: { readonly etcd: RunningServer; readonly postgres: RunningServer }
  beforeAll(async () => {
    servers = { etcd: await start(etcd), postgres: await start(postgres) }
  })
  afterAll(() => Promise.all(Object.values(servers).map((server) => server.stop())))

  const inEtcd = () => `${servers.etcd.url.replace('http:', 'etcd:')}/${newName()}`
  const inPostgres = () => `${servers.postgres.url}?table=${newName()}`
  const places: Record<string, () => Place> = {
    'a directory': directoryPlace,
    etcd: () => serverPlace(inEtcd()),
    PostgreSQL: () => serverPlace(inPostgres()),
  }

  describe.each([
    ['a directory', 'etcd'],
    ['etcd', 'a directory'],
    ['etcd', 'PostgreSQL'],
    ['PostgreSQL', 'a directory'],
  ])('from %s to %s', (from, to) => {
    test.each(moveChecks)('$name', async ({ run }) => {
      const [source, target] = [places[from], places[to]]
      if (source && target) await run(source(), target(), moveStorage)
    })
  })

  test('data that is moved across all storages and back is unchanged, and each storage names its successor', async () => {
    const [first, last] = [directoryPlace(), directoryPlace()]
    const storage = await first.serve()
    await write(
      storage,
      { id: 'a', record: { term: 7, checkpoint: 'x' } },
      { id: 'b', record: { term: 1, deleted: true } },
    )
    const head = await storage.head()
    await storage.close()
    const [one, two] = [inEtcd(), inPostgres()]
    expect(await migrateData({ from: first.directory, to: one, environment })).toBe(2)
    expect(await migrateData({ from: one, to: two, environment })).toBe(2)
    expect(await migrateData({ from: two, to: last.directory, environment })).toBe(2)
    const back = await last.serve()
    expect(await back.head()).toEqual({ ...head, incarnation: expect.any(String) })
    expect(await read(back)).toHaveLength(2)
    await back.close()
    await expect(first.serve()).rejects.toThrow(`it was moved to ${one}. Use that one`)
    await expect(openSharedStorage(one, options)).rejects.toThrow('it was moved to postgres://')
    await expect(openSharedStorage(two, options)).rejects.toThrow(`it was moved to the directory ${last.directory}`)
    await expect(migrateData({ from: last.directory, to: one, environment })).rejects.toThrow(/contains other data/)
    await expect(migrateData({ from: `${last.directory}-missing`, to: inEtcd(), environment })).rejects.toThrow(
      /does not contain the data/,
    )
    await expect(migrateData({ from: inEtcd(), to: inEtcd(), environment })).rejects.toThrow(/its head is missing/)
  })

  test.each([
    ['etcd', inEtcd],
    ['PostgreSQL', inPostgres],
  ])(
    'data on %s is not moved away from an active replica, and nobody can be active there after the move',
    async (_, newUrl) => {
      const [url, to] = [newUrl(), directoryPlace()]
      const replica = await openSharedStorage(url, options)
      onTestFinished(() => replica.close())
      const elector = new Elector({
        store: replica.leases,
        election: 'active',
        identity: 'one',
        leaseDurationMs: 3_000,
      })
      onTestFinished(() => elector.stop())
      elector.start()
      const { term } = await elector.waitForLeadership()
      const first = await replica.storage.head()
      const swap = batchAfter(first, [{ id: 'a', record: { term: 1 } }], { term })
      expect(await replica.storage.append(first, swap)).toBe('done')
      // The migration stops before a busy machine could lose the lease.
      const hurried = { ...systemClock, setTimer: hurry(systemClock.setTimer) }
      const early = migrateData({ from: url, to: to.directory, environment, clock: hurried })
      await expect(early).rejects.toThrow('one is active on this data. Stop all replicas')
      expect(await replica.storage.head()).toEqual(swap.head)
      await elector.stop()
      expect(await migrateData({ from: url, to: to.directory, environment })).toBe(1)
      // Neither late appends nor new active replicas are accepted.
      expect(await replica.storage.append(swap.head, batchAfter(swap.head, []))).toBe('fenced')
      expect(await replica.storage.append(first, swap)).toBe('fenced')
      await expect(replica.storage.head()).rejects.toThrow(`it was moved to the directory ${to.directory}`)
      await expect(replica.storage.load()).rejects.toThrow(/it was moved to/)
      const moved = await to.serve()
      expect(await read(moved)).toEqual([{ id: 'a', record: { term: 1 }, seq: 1 }])
      await moved.close()
    },
  )

  test.each([
    ['etcd', inEtcd],
    ['PostgreSQL', inPostgres],
  ])('a restore on %s skips terms once, fences the active replica, and holds all groups', async (_, newUrl) => {
    const url = newUrl()
    await expect(restoreShared({ store: url, environment })).rejects.toThrow(/its head is missing/)
    const misspelt = { code: 'INVALID_OPTION' }
    await expect(restoreShared({ stores: url } as never)).rejects.toMatchObject(misspelt)
    await expect(migrateData({ from: url, too: url } as never)).rejects.toMatchObject(misspelt)
    const active = await openSharedStorage(url, options)
    onTestFinished(() => active.close())
    await write(active.storage, { id: 'a', record: { term: 1 } })
    const head = await active.storage.head()
    await restoreShared({ store: url, environment })
    expect(await active.storage.head()).toEqual({
      ...head,
      term: head.term + 1_000_000,
      seq: head.seq + 1,
      batch: expect.any(String),
      restores: 1,
      heldMs: 1,
    })
    expect(await active.storage.append(head, batchAfter(head, []))).toBe('fenced')
    expect(await read(active.storage)).toEqual([{ id: 'a', record: { term: 1 }, seq: 1 }])
  })
})
