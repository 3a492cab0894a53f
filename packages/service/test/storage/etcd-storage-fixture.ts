import { rejects } from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { systemClock } from '../../src/common/clock.ts'
import { onTestFinished } from 'vitest'
import { askEtcd, base64, type EtcdAt } from '../../../../test/servers/etcd.ts'
import type { RunningServer } from '../../../../test/servers/server.ts'
import { openGrpcKeys } from '../../src/storage/etcd-grpc/open-keys.ts'
import type { EtcdStorageServer } from '../../src/storage/etcd-server.ts'
import type { ServerStorage } from '../../src/storage/server-storage.ts'
import type { StorageWorld } from './conformance.ts'
import { startEtcdFront } from './faulty-etcd-proxy.ts'

/** The storage modules, or those of a mutant. */
export interface EtcdStorages {
  readonly EtcdStorageServer: typeof EtcdStorageServer
  readonly ServerStorage: Pick<typeof ServerStorage, 'open'>
}

export interface EtcdPlace extends EtcdAt {
  readonly prefix: string
}

/** Opens the data at this place until the end of the test. */
export async function openEtcd(
  storages: EtcdStorages,
  { url, prefix }: EtcdPlace,
  open = openGrpcKeys,
): Promise<ServerStorage> {
  const keys = open(url.replace('http:', 'etcd:') + `/${encodeURIComponent(prefix)}`, {}, systemClock)
  if (!keys) throw new Error(`${url} is not the address of an etcd`)
  const storage = await storages.ServerStorage.open({ server: new storages.EtcdStorageServer(keys), newId: randomUUID })
  onTestFinished(() => storage.close())
  return storage
}

/** New data on a server. `other` is a server with another history. */
export async function etcdWorld(
  storages: EtcdStorages,
  server: RunningServer,
  other: () => RunningServer,
): Promise<Required<StorageWorld>> {
  const place = { url: server.url, prefix: `conformance/${randomUUID()}` }
  const storage = await openEtcd(storages, place)
  const another = () => openEtcd(storages, place)
  return {
    storage,
    another,
    async reopen() {
      await storage.close()
      return another()
    },
    async beginLate() {
      const fresh = { ...place, prefix: `${place.prefix}/fresh` }
      const front = await startEtcdFront(server)
      front.fault = 'late'
      await rejects(openEtcd(storages, { ...fresh, url: front.url }))
      return { open: () => openEtcd(storages, fresh), deliver: () => front.deliver() }
    },
    async writes() {
      const { header } = await askEtcd<{ header: { revision: string } }>(place, 'kv/range', { key: base64('x') })
      return Number(header.revision)
    },
    async faulty() {
      const front = await startEtcdFront(server)
      return {
        storage: await openEtcd(storages, { ...place, url: front.url }),
        suffer: (fault) => (front.fault = fault),
        deliver: () => front.deliver(),
      }
    },
    async replaced() {
      const range = { key: base64(`${place.prefix}/`), range_end: base64(`${place.prefix}0`) }
      const { kvs } = await askEtcd<{ kvs: { key: string; value: string }[] }>(place, 'kv/range', range)
      for (const { key, value } of kvs) await askEtcd(other(), 'kv/put', { key, value })
      return openEtcd(storages, { ...place, url: other().url })
    },
  }
}
