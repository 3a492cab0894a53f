/**
 * Tests of an etcd that is restored from a backup, under the same cluster id, while running replicas know later writes.
 */
import { deepEqual, equal, match } from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import { etcd } from '../../../../test/servers/etcd.ts'
import { start } from '../../../../test/servers/server.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { ConfirmedHead } from '../../src/replication/data-loss.ts'
import { openGrpcKeys } from '../../src/storage/etcd-grpc/open-keys.ts'
import { EtcdStorageServer } from '../../src/storage/etcd-server.ts'
import { ServerStorage } from '../../src/storage/server-storage.ts'
import { answers, campaign, resign, startReplicas } from './process-scene.ts'
import type { Answer } from '../disk/service-process.ts'
import { batchAfter, write } from '../storage/data-directories.ts'
import { openEtcd, type EtcdStorages } from '../storage/etcd-storage-fixture.ts'

const maxTtlMs = 10_000

interface Parts extends EtcdStorages {
  readonly ConfirmedHead: typeof ConfirmedHead
  readonly openGrpcKeys: typeof openGrpcKeys
}

const storages: Parts = { EtcdStorageServer, ServerStorage, ConfirmedHead, openGrpcKeys }

/** An etcd with data, and functions that back it up and restore it. */
async function openServer() {
  const server = await start(etcd)
  onTestFinished(() => server.stop())
  const [data, backup] = ['data', 'backup'].map((name) => join(server.directory, name)) as [string, string]
  return {
    server,
    async backUp() {
      await server.kill('SIGKILL')
      cpSync(data, backup, { recursive: true })
      await server.start()
    },
    async restore() {
      await server.kill('SIGKILL')
      rmSync(data, { recursive: true })
      cpSync(backup, data, { recursive: true })
      await server.start()
    },
  }
}

const rejection = (work: Promise<unknown>) => work.then(() => undefined).catch((error: Error) => error)

const checks: Readonly<Record<string, (parts: Parts) => Promise<void>>> = {
  async 'a storage that has seen a later revision reports the loss until the loss is recorded'(parts) {
    const { server, backUp, restore } = await openServer()
    const place = { url: server.url, prefix: 'service' }
    const [one, two] = [
      await openEtcd(parts, place, parts.openGrpcKeys),
      await openEtcd(parts, place, parts.openGrpcKeys),
    ]
    await write(one, { id: 'a', record: { term: 1 } })
    await backUp()
    // None of the groups is lost, but neither of the two storages can know that.
    for (const storage of [one, two]) for (let writes = 0; writes < 3; writes++) await storage.check()
    const head = await one.head()
    await two.head()
    equal((await one.history()).lostRestores, undefined)
    await restore()
    for (const storage of [one, two]) {
      const error = await rejection(storage.head())
      equal(error && 'code' in error && error.code, 'BACKEND_UNAVAILABLE')
      match(String(error?.message), /history .* replaced by an earlier one.*"tenure restore"/)
      deepEqual(await storage.head(), head)
      equal((await storage.history()).lostRestores, 0)
    }
    const changes = new parts.ConfirmedHead(0).changesOn(head, await one.history(), 60_000)
    deepEqual({ restores: changes.restores, heldMs: changes.heldMs }, { restores: 1, heldMs: 60_000 })
    equal(await one.append(head, batchAfter(head, [], changes)), 'done')
    for (const storage of [one, two]) equal((await storage.history()).lostRestores, undefined)
  },
}

const storage = { package: 'service', file: 'storage/server-storage.ts' } as const
const [reported = ''] = Object.keys(checks)
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    name: 'a history that ends before an observed revision is accepted',
    file: 'clients/etcd/client.ts',
    find: 'this.#replacements += 1',
    replace: 'this.#replacements += 0',
    by: reported,
  },
  {
    ...storage,
    name: 'a loss that another replica has recorded is recorded again',
    find: 'lost === undefined || head.restores > lost',
    replace: 'lost === undefined || head.restores > lost + 1_000',
    by: reported,
  },
  {
    package: 'service',
    file: 'replication/data-loss.ts',
    name: 'a lower revision is not treated as data loss',
    find: ' || lostRestores !== undefined',
    replace: '',
    by: reported,
  },
  {
    name: 'a process that knows about the loss demands a restart',
    file: 'clients/etcd/client.ts',
    find: "if (this.#replaced === 'refuse') return",
    replace: 'if (this.#replaced !== undefined) return',
    by: reported,
  },
]

interface Mutant {
  readonly storage: typeof import('../../src/storage/server-storage.ts')
  readonly server: typeof import('../../src/storage/etcd-server.ts')
  readonly tail: typeof import('../../src/replication/data-loss.ts')
  readonly keys: typeof import('../../src/storage/etcd-grpc/open-keys.ts')
}
const termIn = ({ body }: Answer) => (body['leader'] as { term: number }).term

describeWithPrograms([etcd.program], 'replicas on an etcd', () => {
  test('replicas grant no term twice and recover without a restart when a backup is restored under the same cluster id', async () => {
    vi.stubEnv('MAX_TTL_MS', String(maxTtlMs))
    onTestFinished(() => void vi.unstubAllEnvs())
    const { server, backUp, restore } = await openServer()
    const { replicas, active } = await startReplicas({ members: [server.port] })
    const ttl = { lease_ttl_ms: maxTtlMs }
    const first = await campaign(active, 'payments', 'a', ttl)
    expect(first).toMatchObject({ status: 200, body: { is_leader: true, leader: { term: 1 } } })
    expect((await resign(active, 'payments', 'a', 1))?.status).toBe(200)

    await backUp()
    for (const replica of replicas) await answers(replica)
    const granted = await vi.waitUntil(
      async () => {
        const answer = await campaign(active, 'payments', 'b', ttl)
        return answer?.status === 200 ? answer : undefined
      },
      { timeout: 30_000 },
    )
    // The lease of b does not end before its duration has passed from this moment.
    const grantedMs = performance.now()
    const term = termIn(granted)
    expect(granted.body['is_leader']).toBe(true)
    expect(term).toBeGreaterThan(1)

    await restore()
    for (const replica of replicas) {
      const next = await vi.waitUntil(
        async () => {
          const answer = await campaign(replica, 'payments', 'c', ttl)
          return answer?.status === 200 && answer.body['is_leader'] === true ? answer : undefined
        },
        { timeout: 60_000, interval: 100 },
      )
      expect(termIn(next)).toBeGreaterThan(1_000_000)
    }
    expect(performance.now() - grantedMs).toBeGreaterThan(maxTtlMs * 0.9)
    expect(replicas.every(({ isRunning }) => isRunning)).toBe(true)
    const lines = replicas.flatMap(({ log }) => log.map((line) => JSON.stringify(line)))
    expect(lines.filter((line) => line.includes('the storage has lost confirmed data'))).toHaveLength(1)
    expect(lines.filter((line) => line.includes('restart this process'))).toEqual([])
  }, 180_000)

  test.for(Object.keys(checks))('%s', async (name) => checks[name]?.(storages))

  test.for(mutations)('the checks catch the mutant "$name"', async ({ by, ...mutation }) => {
    const mutant = await loadMutant<Mutant>(mutation, {
      storage: '../../service/src/storage/server-storage.ts',
      server: '../../service/src/storage/etcd-server.ts',
      tail: '../../service/src/replication/data-loss.ts',
      keys: '../../service/src/storage/etcd-grpc/open-keys.ts',
    })
    const parts = { ...mutant.storage, ...mutant.server, ...mutant.tail, ...mutant.keys }
    expect(await passes(async () => checks[by]?.(parts))).toBe(false)
  })
})
