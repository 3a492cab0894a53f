import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { Elector, type Leadership } from 'tenure'
import { storeConformance } from '@tenure/testing/conformance'
import { describe, expect, onTestFinished, test } from 'vitest'
import { etcd, removeKeys } from '../../../../test/servers/etcd.ts'
import { postgres } from '../../../../test/servers/postgres.ts'
import type { RunningServer, ServerKind } from '../../../../test/servers/server.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { systemClock } from '../../src/common/clock.ts'
import { openSharedStorage, type SharedStorage } from '../../src/storage/open-storage.ts'
import { batchAfter, read, write } from './data-directories.ts'

async function open(url: string, environment = {}): Promise<SharedStorage> {
  const shared = await openSharedStorage(url, { newId: randomUUID, clock: systemClock, environment })
  onTestFinished(() => shared.close())
  return shared
}

/** The candidacy of one replica. */
function campaign({ leases }: SharedStorage, identity: string): Elector {
  const elector = new Elector({ store: leases, election: 'active', identity, leaseDurationMs: 3_000 })
  onTestFinished(() => elector.stop())
  elector.start()
  return elector
}

/** Becomes active: from here on, appends of lower terms are fenced. */
async function takeOver({ storage }: SharedStorage, { term }: Leadership) {
  const head = await storage.head()
  expect(term).toBeGreaterThan(head.term)
  const swap = batchAfter(head, [], { term })
  expect(await storage.append(head, swap)).toBe('done')
  return swap.head
}

/** A server, places for data on it, and functions that remove leases there. */
interface Kind {
  readonly kind: ServerKind
  urlOf(server: RunningServer, place: string): string
  removeRecord(server: RunningServer, place: string, election: string): Promise<unknown>
  removeLeases(server: RunningServer, place: string): Promise<unknown>
  readonly warnings: readonly unknown[]
}

const leaseKeys = (place: string) => `${place}/service:leases/`

async function query(server: RunningServer, text: string, values: string[] = []): Promise<void> {
  const client = new Client({ connectionString: server.url })
  await client.connect()
  await client.query(text, values)
  await client.end()
}

const kinds: readonly Kind[] = [
  {
    kind: etcd,
    urlOf: ({ url }, place) => `${url.replace('http:', 'etcd:')}/${place}`,
    removeRecord: (server, place, election) =>
      removeKeys(server, `${leaseKeys(place)}${encodeURIComponent(election)}/record`),
    removeLeases: (server, place) => removeKeys(server, leaseKeys(place), leaseKeys(place).replace(/\/$/, '0')),
    warnings: [expect.stringContaining('one member')],
  },
  {
    kind: postgres,
    urlOf: ({ url }, place) => `${url}?table=${place}`,
    removeRecord: (server, place, election) =>
      query(server, `delete from ${place}_leases where election = $1`, [election]),
    removeLeases: (server, place) => query(server, `delete from ${place}_leases; delete from ${place}_leases_terms`),
    warnings: [],
  },
]

for (const { kind, urlOf, removeRecord, removeLeases, warnings } of kinds) {
  describeWith(kind, `a storage in ${kind.name} that replicas share`, (server) => {
    const newPlace = () => `p_${randomUUID().replaceAll('-', '')}`

    describe('conformance of its leases', () => {
      const place = newPlace()
      const cases = storeConformance(
        async () => {
          const options = { newId: randomUUID, clock: systemClock, environment: {} }
          const shared = await openSharedStorage(urlOf(server(), place), options)
          return {
            store: shared.leases,
            open: async () => (await open(urlOf(server(), place))).leases,
            remove: async (election) => void (await removeRecord(server(), place, election)),
            close: () => shared.close(),
          }
        },
        { leaseDurationMs: 1_000 },
      )
      for (const { name, run } of cases) test(name, run)
    })

    test('replicas that open a shared storage find the same data and get warnings about the server', async () => {
      const place = newPlace()
      const [one, other] = await Promise.all([open(urlOf(server(), place)), open(urlOf(server(), place))])
      await write(one.storage, { id: 'g', record: { term: 3 } })
      expect(await read(other.storage)).toEqual([{ id: 'g', record: { term: 3 }, seq: 1 }])
      expect(one.warnings).toEqual(warnings)
      expect(await read((await open(urlOf(server(), newPlace()))).storage)).toEqual([])
    })

    test('a lost lease key never leads to an election in a term that an active replica has had', async () => {
      const place = newPlace()
      const [one, other] = await Promise.all([open(urlOf(server(), place)), open(urlOf(server(), place))])
      const first = await campaign(one, 'one').waitForLeadership()
      const head = await takeOver(one, first)
      const batch = batchAfter(head, [{ id: 'g', record: { term: 1 } }])
      expect(await one.storage.append(head, batch)).toBe('done')
      await removeLeases(server(), place)
      // This replica never saw the keys.
      const second = await campaign(other, 'other').waitForLeadership()
      expect(first.isLeader()).toBe(false)
      expect(second.term).toBeGreaterThan(batch.head.term)
      await takeOver(other, second)
      const late = batchAfter(batch.head, [{ id: 'g', record: { term: 2 } }])
      expect(await one.storage.append(batch.head, late)).toBe('fenced')
      expect(await read(other.storage)).toEqual([{ id: 'g', record: { term: 1 }, seq: 2 }])
    })
  })
}

test('unsupported servers and invalid URLs are refused with a clear message', async () => {
  const refused = (url: string) => open(url).catch((error: Error) => error.message)
  expect(await refused('redis://:hunter2@127.0.0.1/')).toMatch(/^store redis:.* is not supported: it must be "etcd:/)
  expect(await refused('redis://:hunter2@127.0.0.1/')).not.toContain('hunter2')
  expect(await refused('/var/lib')).toMatch(/it must be "etcd:/)
  expect(await refused('etcd://127.0.0.1:1/p?x=1')).toMatch(/it must be "etcd:\/\/host:2379,host:2379\/prefix"/)
  expect(await refused('etcd://u:hun/ter2@127.0.0.1:1/p')).toMatch(/percent-encode user and password/)
  expect(await refused('etcd://127.0.0.1:1/p')).toMatch(/cannot be reached/)
  expect(await refused('postgres:127.0.0.1')).toMatch(/it must be "postgres:\/\/user:password@host/)
  expect(await refused('postgres://127.0.0.1:1/db?tabel=x')).toMatch(/Did you mean "table"/)
  expect(await refused('postgres://u:hunter2@127.0.0.1:1/db')).toMatch(/ECONNREFUSED/)
  expect(await refused('postgres://u:hunter2@127.0.0.1:1/db')).not.toContain('hunter2')
})
