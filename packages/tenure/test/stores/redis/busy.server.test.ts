import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { Elector, lead, withLock, type LeaseStore } from '../../../src/index.ts'
import { createJobs } from '../../../src/jobs/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'

describeWith(redis, 'a try while another process leads on Redis', (server) => {
  function connect(): { client: Redis; store: LeaseStore } {
    const client = new Redis(server().url)
    const store = redisStore({ client, prefix: 'busy:' })
    onTestFinished(async () => {
      await store.close?.()
      client.disconnect()
    })
    return { client, store }
  }

  const observer = { onEvent: () => undefined }
  const refuse = () => expect.unreachable('two processes lead')
  const tries = {
    'lead with wait: false': (store: LeaseStore) =>
      expect(lead({ store, election: 'import', observer, wait: false }, refuse)).rejects.toMatchObject({
        code: 'BUSY',
      }),
    'withLock with waitMs: 0': (store: LeaseStore) =>
      expect(withLock(store, 'import', refuse, { observer, waitMs: 0 })).rejects.toMatchObject({
        code: 'LOCK_TIMEOUT',
      }),
    'jobs.tryRun': (store: LeaseStore) =>
      expect(createJobs({ store, observer }).tryRun('import', refuse)).resolves.toBe('busy'),
  }

  test.each(Object.entries(tries))(
    '%s is answered by one script on Redis, without waiting for a renewal',
    async (_, attempt) => {
      const leading = connect()
      // The next renewal is due in 20 s, so the script that is counted is the one of the try.
      const leader = new Elector({ store: leading.store, election: 'import', leaseDurationMs: 60_000, observer })
      leader.start()
      await leader.waitForLeadership()
      try {
        const { client, store } = connect()
        // Connects, and loads the script.
        await store.read('other', { signal: AbortSignal.timeout(10_000) })
        const before = await scriptsRun(client)
        await attempt(store)
        expect(await scriptsRun(client)).toBe(before + 1)
        expect(leader.isLeader()).toBe(true)
      } finally {
        await leader.stop()
      }
    },
  )
})

/** How many scripts Redis has run since it was started. */
async function scriptsRun(client: Redis): Promise<number> {
  const text = await client.info('commandstats')
  const counts = [...text.matchAll(/^cmdstat_(?:eval|evalsha|fcall):calls=(\d+)/gm)].map(([, count]) => Number(count))
  return counts.reduce((sum, count) => sum + count, 0)
}
