import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis-5'
import { createClient } from 'redis'
import { createClient as createClient4 } from 'redis-4'
import { createClient as createClient5 } from 'redis-5'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findBlocks, readDocument, root } from '../../../../../test/documents.ts'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { redisStore, type RedisClient } from '../../../src/stores/redis/index.ts'

/** Every client that a program may have, for the server at a URL. */
const clients: Record<string, (url: string) => RedisClient> = {
  'ioredis 6': (url) => new Redis(url, { lazyConnect: true }),
  'ioredis 5': (url) => new Redis5(url, { lazyConnect: true }),
  'redis 6': (url) => createClient({ url }),
  'redis 5': (url) => createClient5({ url }),
  'redis 4': (url) => createClient4({ url }),
}

describeWith(redis, 'redisStore', (server) => {
  let admin: Redis
  beforeAll(() => {
    admin = new Redis(server().url)
  })
  afterAll(() => admin.disconnect())

  test('the first program in the Redis documentation leads and exits', async () => {
    const document = 'docs/stores/redis.md'
    const program = findBlocks(document, readDocument(document)).find(({ info }) => info[0] === 'ts')?.code ?? ''
    const options = { cwd: root, env: { ...process.env, REDIS_URL: server().url }, timeout: 15_000 }
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], options)
    expect(stdout).toBe('leading in term 1\n')
  })

  describe.each(Object.entries(clients))('redisStore conforms with %s', (name, clientOf) => {
    const prefix = `${name}:`
    const open = () => redisStore({ client: clientOf(server().url), prefix })
    const cases = storeConformance(
      () => ({
        store: open(),
        open,
        // Redis does not send a notification when a key is deleted.
        async remove(election) {
          const key = `${prefix}{${encodeURIComponent(election)}}:lease`
          await admin.del(key)
          await admin.publish(key, '')
        },
      }),
      { leaseDurationMs: 1_000 },
    )
    for (const { name: promise, run } of cases) test.concurrent(promise, run)
  })
})
