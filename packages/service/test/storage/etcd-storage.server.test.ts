import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { askEtcd, base64, etcd, etcd36, putKey, removeKeys, withSettings } from '../../../../test/servers/etcd.ts'
import { start, type RunningServer, type ServerKind } from '../../../../test/servers/server.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { EtcdStorageServer } from '../../src/storage/etcd-server.ts'
import { ServerStorage } from '../../src/storage/server-storage.ts'
import { conformanceCases } from './conformance.ts'
import { followerCases } from './follower-conformance.ts'
import { read, write } from './data-directories.ts'
import { etcdWorld, openEtcd } from './etcd-storage-fixture.ts'

const storages = { EtcdStorageServer, ServerStorage }

/** The same server, as a cluster with another name. */
const another = (kind: ServerKind) => withSettings(kind, { 'initial-cluster-token': 'another' })

for (const kind of [etcd, etcd36]) {
  describeWith(kind, `a storage on ${kind.name}`, (server) => {
    let other: RunningServer
    beforeAll(async () => {
      other = await start(another(kind))
    })
    afterAll(() => other.stop())

    describe('conformance', () => {
      test.each([...conformanceCases, ...followerCases])('$name', async ({ run }) =>
        run(await etcdWorld(storages, server(), () => other)),
      )
    })

    const placeOf = () => ({ url: server().url, prefix: `place/${randomUUID()}` })

    test('keys of other programs under the same prefix are not read and do no harm', async () => {
      const place = placeOf()
      const { prefix } = place
      const strange = (...bytes: number[]) =>
        Buffer.concat([Buffer.from(`${prefix}/group:`), Buffer.from(bytes)]).toString('base64')
      const others = [
        '',
        'group',
        'group:a/record',
        'group:a/service:head',
        'group:%zz',
        'group:%61',
        'group;',
        'grouq:b',
      ]
      for (const key of others) await putKey(place, `${prefix}/${key}`, 'something else')
      await askEtcd(place, 'kv/put', { key: strange(0xff, 0xfe), value: base64('not a text') })
      await askEtcd(place, 'kv/put', { key: strange(0x61, 0x80), value: base64('not a text') })
      const storage = await openEtcd(storages, place)
      const nested = await openEtcd(storages, { ...place, prefix: `${prefix}/group:b` })
      const groups = Array.from({ length: 110 }, (_, index) => ({ id: `g${index}`, record: { term: 1 } }))
      await write(storage, { id: 'a', record: { term: 5 } }, ...groups)
      await write(nested, { id: 'a', record: { term: 7 } })
      expect(await read(storage)).toHaveLength(111)
      expect((await read(storage)).find(({ id }) => id === 'a')?.record).toEqual({ term: 5 })
      expect(await read(nested)).toEqual([{ id: 'a', record: { term: 7 }, seq: 1 }])
    })

    test('an etcd storage with groups but without a head is refused', async () => {
      const place = placeOf()
      const storage = await openEtcd(storages, place)
      await write(storage, { id: 'a', record: { term: 5 } })
      await removeKeys(place, `${place.prefix}/service:head`)
      await expect(openEtcd(storages, place)).rejects.toThrow(/cannot be used: its head is missing/)
      await expect(storage.head()).rejects.toThrow(/its head is missing/)
      await expect(write(storage, { id: 'b', record: { term: 1 } })).rejects.toThrow(/its head is missing/)
    })

    test('a damaged record or head in etcd is an error', async () => {
      const place = placeOf()
      const storage = await openEtcd(storages, place)
      await write(storage, { id: 'a', record: { term: 5 } }, { id: 'b', record: { term: 5 } })
      const valueAt = async (key: string) => {
        const { kvs } = await askEtcd<{ kvs: { value: string }[] }>(place, 'kv/range', { key: base64(key) })
        return Buffer.from(kvs[0]?.value ?? '', 'base64').toString()
      }
      const groupKey = `${place.prefix}/group:a`
      const headKey = `${place.prefix}/service:head`
      const [group, head] = [await valueAt(groupKey), await valueAt(headKey)]
      await putKey(place, groupKey, group.replace('"term":5', '"term":4'))
      await expect(read(storage)).rejects.toThrow(/the record of group "a" is damaged/)
      await putKey(place, groupKey, await valueAt(`${place.prefix}/group:b`))
      await expect(read(storage)).rejects.toThrow(/the record of group "a" is damaged/)
      await putKey(place, groupKey, group)
      expect(await read(storage)).toHaveLength(2)
      await putKey(place, headKey, head.replace('"restores":0', '"restores":1'))
      await expect(storage.head()).rejects.toThrow(/its head is damaged/)
    })

    test('a load continues across a compaction and across pages with large groups', async () => {
      const place = placeOf()
      const storage = await openEtcd(storages, place)
      const small = Array.from({ length: 120 }, (_, index) => ({ id: `a${index}`, record: { term: 1 } }))
      const large = Array.from({ length: 100 }, (_, index) => ({
        id: `b${index}`,
        record: { term: 1, checkpoint: 'x'.repeat(8_000) },
      }))
      await write(storage, ...small)
      await write(storage, ...large)
      const { pages } = await storage.load()
      let count = 0
      for await (const page of pages) {
        if (count === 0) {
          await storage.check()
          const { header } = await askEtcd<{ header: { revision: string } }>(place, 'kv/range', { key: base64('x') })
          await askEtcd(place, 'kv/compaction', { revision: header.revision })
        }
        count += page.length
      }
      expect(count).toBe(220)
    })

    test('groups that do not fit into one answer of etcd are read in parts', async () => {
      const storage = await openEtcd(storages, placeOf())
      const small = Array.from({ length: 100 }, (_, index) => ({ id: `a${index}`, record: { term: 1 } }))
      const large = Array.from({ length: 90 }, (_, index) => ({
        id: `b${index}`,
        record: { term: 1, checkpoint: 'x'.repeat(62_000) },
      }))
      await write(storage, ...small)
      for (let from = 0; from < large.length; from += 15) await write(storage, ...large.slice(from, from + 15))
      expect(await read(storage)).toHaveLength(190)
      const { parts } = await storage.follower.groups(large.map(({ id }) => id))
      expect([...parts].flat().map(({ id }) => id)).toEqual(large.map(({ id }) => id))
    })

    test('close ends pending calls of the etcd storage, and nothing is sent afterwards', async () => {
      const place = placeOf()
      const storage = await openEtcd(storages, place)
      const checking = storage.check().catch(() => 'ended')
      await storage.close()
      await checking
      await expect(storage.head()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
      await expect(storage.check()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    })
  })
}
