/** Tests of the outcome of a batch when the network or a member of the cluster fails during an append. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { etcd, etcd36 } from '../../../../test/servers/etcd.ts'
import { startEtcdCluster, type EtcdCluster } from '../../../../test/servers/etcd-cluster.ts'
import { startProxy } from '../../../../test/servers/proxy.ts'
import { describeWith, describeWithPrograms } from '../../../../test/servers/suite.ts'
import { EtcdStorageServer } from '../../src/storage/etcd-server.ts'
import { ServerStorage } from '../../src/storage/server-storage.ts'
import { batchAfter, read } from './data-directories.ts'
import { openEtcd } from './etcd-storage-fixture.ts'

const storages = { EtcdStorageServer, ServerStorage }

const groups = Array.from({ length: 100 }, (_, index) => ({
  id: `group-${index}`,
  record: { term: 1, checkpoint: 'x'.repeat(2_000) },
}))

/** HTTP/2 sends this much before the member has to confirm anything, so it arrives even if no answer does. */
const fewGroups = groups.slice(0, 10)

describeWith(etcd, 'a storage in etcd behind a network that fails', (server) => {
  async function behindProxy() {
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    const prefix = randomUUID()
    const behind = `http://127.0.0.1:${proxy.port}`
    const direct = await openEtcd(storages, { url: server().url, prefix })
    return { proxy, prefix, behind, direct, head: await direct.head() }
  }

  test('a connection that is cut during an append leaves the whole batch or nothing', async () => {
    const { proxy, prefix, behind, direct, head } = await behindProxy()
    const storage = await openEtcd(storages, { url: behind, prefix })
    const batch = batchAfter(head, groups)
    proxy.set({ bytes: 50_000, everyMs: 20 }, 'to-server')
    const outcome = storage.append(head, batch).catch(() => 'unknown')
    const cut = setInterval(() => proxy.reset(), 50)
    expect(await outcome).toBe('unknown')
    clearInterval(cut)
    proxy.set('pass')
    const isThere = (await storage.append(head, batchAfter(head, []))) === 'fenced'
    if (isThere) expect(await storage.append(head, batch)).toBe('done')
    expect(await read(direct)).toHaveLength(isThere ? groups.length : 0)
  })

  test('a batch that one member applies without an answer is confirmed by the next member', async () => {
    const { proxy, prefix, behind, direct, head } = await behindProxy()
    const storage = await openEtcd(storages, { url: `${behind},${server().url.slice(7)}`, prefix })
    proxy.set('blackhole', 'to-client')
    const batch = batchAfter(head, fewGroups)
    expect(await storage.append(head, batch)).toBe('done')
    expect(await direct.head()).toEqual(batch.head)
    expect(await read(direct)).toHaveLength(fewGroups.length)
  })

  test('a silent network leads to an unknown outcome within the timeout', async () => {
    const { proxy, prefix, behind, direct, head } = await behindProxy()
    const storage = await openEtcd(storages, { url: behind, prefix })
    proxy.set('blackhole', 'to-client')
    const batch = batchAfter(head, fewGroups)
    const startedMs = performance.now()
    await expect(storage.append(head, batch)).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(performance.now() - startedMs).toBeLessThan(4_900)
    expect(await direct.head()).toEqual(batch.head)
    proxy.set('pass')
    expect(await storage.append(head, batchAfter(head, []))).toBe('fenced')
    expect(await storage.append(head, batch)).toBe('done')
  })
})

describeWithPrograms([etcd36.program], 'a storage on three members', () => {
  let cluster: EtcdCluster
  beforeAll(async () => {
    cluster = await startEtcdCluster(etcd36.program)
  })
  afterAll(() => cluster.stop())

  test('an isolated member of etcd confirms nothing, and its batch has no effect after it rejoins', async () => {
    const leader = await cluster.leader()
    const prefix = randomUUID()
    const others = cluster.members.filter(({ id }) => id !== leader.id)
    const old = await openEtcd(storages, { url: leader.url, prefix })
    const next = await openEtcd(storages, {
      url: `http://${others.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
      prefix,
    })
    const head = await old.head()
    cluster.isolate(leader)
    const batch = batchAfter(head, [{ id: 'a', record: { term: 1 } }])
    await expect(old.append(head, batch)).rejects.toMatchObject({ code: 'TIMEOUT' })
    await expect(old.head()).rejects.toMatchObject({ code: expect.stringMatching(/TIMEOUT|BACKEND_UNAVAILABLE/) })
    const swap = batchAfter(head, [], { term: 1 })
    await expect.poll(() => next.append(head, swap).catch(() => 'unknown'), { timeout: 20_000 }).toBe('done')
    cluster.join()
    await expect
      .poll(() => old.append(head, batchAfter(head, [])).catch(() => 'unknown'), { timeout: 20_000 })
      .toBe('fenced')
    expect(await old.append(head, batch)).toBe('fenced')
    expect(await old.head()).toEqual(swap.head)
    expect(await read(old)).toEqual([])
  })
})
