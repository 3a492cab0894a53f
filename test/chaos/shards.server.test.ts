import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { onTestFinished, test } from 'vitest'
import { newDirectory, serveProcess } from '../../packages/service/test/service-process.ts'
import { etcd, removeKeys } from '../servers/etcd.ts'
import { freePort } from '../servers/free-port.ts'
import { asWhole, postgres } from '../servers/postgres.ts'
import { redis } from '../servers/redis.ts'
import { describeWith } from '../servers/suite.ts'
import { runShards, shardsTimeout as timeout } from './shard-faults.ts'

const name = 'processes never share a shard, and own all shards again, whatever fails'

// The full run has eight processes with every fault here, and three with some of them on the other stores.
describeWith(etcd, 'shards under faults on etcd', (server) => {
  test(name, { timeout }, async () => {
    const store = {
      name: 'etcd',
      port: server().port,
      urlAt: (at: number) => `etcd://127.0.0.1:${at}`,
      restart: (downForMs: number) => server().restart('SIGKILL', { downForMs }),
      removeRecord: (group: string) => removeKeys(server(), `tenure/${group}/record`),
    }
    await runShards(store, 'whole')
  })
})

describeWith(postgres, 'shards under faults on PostgreSQL', (server) => {
  test(name, { timeout }, async () => {
    const { port, url } = server()
    const instance = asWhole(server())
    const store = {
      name: 'PostgreSQL',
      port,
      urlAt: (at: number) => `postgres://postgres@127.0.0.1:${at}/postgres`,
      restart: (downForMs: number) => instance.restart('SIGKILL', { downForMs }),
      async removeRecord(group: string) {
        const client = new Client({ connectionString: url })
        client.on('error', () => {})
        try {
          await client.connect()
          await client.query('delete from tenure_leases where election = $1', [group])
        } finally {
          await client.end()
        }
      },
    }
    await runShards(store, 'small')
  })
})

describeWith(redis, 'shards under faults on Redis', (server) => {
  test(name, { timeout }, async () => {
    const { port } = server()
    const admin = new Redis({ port, maxRetriesPerRequest: null })
    admin.on('error', () => {})
    onTestFinished(() => admin.disconnect())
    const store = {
      name: 'Redis',
      port,
      // A guard must leave a process alone that is paused or cut off.
      releaseOnCrash: true,
      urlAt: (at: number) => `redis://127.0.0.1:${at}`,
      restart: (downForMs: number) => server().restart('SIGKILL', { downForMs }),
      removeRecord: (group: string) => admin.del(`tenure:{${group}}:lease`),
    }
    await runShards(store, 'small')
  })
})

test(`${name}, on the service`, { timeout }, async () => {
  const directory = newDirectory()
  const port = await freePort()
  let service = await serveProcess(directory, port)
  const store = {
    name: 'the service',
    port,
    urlAt: (at: number) => `http://127.0.0.1:${at}`,
    async restart(downForMs: number) {
      await service.kill()
      await delay(downForMs)
      service = await serveProcess(directory, port)
    },
    async removeRecord(group: string) {
      const path = `/v1/groups/${group}?force=true`
      const { ok, status } = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'DELETE' })
      if (!ok) throw new Error(`the service answered ${status} to the deletion of the group`)
    },
  }
  await runShards(store, 'small')
})
