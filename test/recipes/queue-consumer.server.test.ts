import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test, vi } from 'vitest'
import { redis } from '../servers/redis.ts'
import { describeWith } from '../servers/suite.ts'
import { exampleFile, newRecipeFolder, waitOptions, documentBlock, slowTest } from './recipe-folder.ts'

const command = documentBlock('A queue with one consumer', 'sh')

describeWith(redis, 'a queue with one consumer', (server) => {
  /** Prepares machines that share this Redis and a folder of leases, where the death of a leader is noticed at once. */
  const prepare = async (handle: string) => {
    const client = new Redis(server().url)
    onTestFinished(() => client.disconnect())
    await client.flushall()
    const place = newRecipeFolder({ REDIS_URL: server().url })
    const leases = `file://${join(place.folder, 'leases')}`
    place.put('handle', `#!/bin/bash\n${handle}\n`)
    copyFileSync(exampleFile('queue-consumer/consumer'), join(place.folder, 'consumer'))
    const machine = (identity: string) => place.machine(command, { TENURE_STORE: leases, TENURE_IDENTITY: identity })
    const results = () => client.lrange('results', 0, -1)
    return { ...place, client, machine, results }
  }
  const jobs = Array.from({ length: 6 }, (_, index) => `job ${index}`)

  test(
    'queue-consumer: the next leader handles a job whose machine died, and the jobs stay in order',
    slowTest,
    async () => {
      const { client, lines, machine, results } = await prepare(
        // The first attempt at this job never ends.
        'read -r job; echo "$TENURE_IDENTITY $job" >> "$FOLDER/begun"\n' +
          '[[ "$TENURE_IDENTITY $job" == "a job 2" ]] && sleep 1000; echo "$job by $TENURE_IDENTITY"',
      )
      const first = machine('a')
      await first.says('leads "jobs" in term 1')
      const second = machine('b')
      await second.says('a leads "jobs"')
      await client.rpush('jobs', ...jobs)
      await vi.waitUntil(() => lines('begun').includes('a job 2'), waitOptions)
      first.child.kill('SIGKILL')
      await vi.waitUntil(async () => (await results()).length === jobs.length, waitOptions)
      expect(await results()).toEqual(jobs.map((job, index) => `${job} by ${index < 2 ? 'a' : 'b'}`))
      expect(await client.llen('jobs')).toBe(0)
      expect(lines('begun').filter((line) => line.endsWith('job 2'))).toEqual(['a job 2', 'b job 2'])
      second.child.kill('SIGTERM')
      await second.ended
    },
  )

  test(
    'queue-consumer: a write that a former leader still has in flight is refused, and its job stays',
    slowTest,
    async () => {
      const { client, folder, machine, put, results } = await prepare('cat; touch "$FOLDER/begun"; sleep 1000')
      await client.rpush('jobs', 'job 0')
      put('slow', '#!/bin/bash\ncat; echo begun >&2; while [ ! -e "$FOLDER/go" ]; do sleep 0.1; done\n')
      const env = { TENURE_TERM: '0', REDIS_URL: server().url, FOLDER: folder }
      // A former leader that nothing could end, because it was paused together with its supervisor.
      const former = newRecipeFolder(env).machine(`exec ${join(folder, 'consumer')} ${join(folder, 'slow')}`)
      await former.says('begun')
      const leader = machine('b')
      await leader.says('leads "jobs" in term 1')
      await vi.waitUntil(async () => (await client.get('jobs:term')) === '1', waitOptions)
      put('go', '')
      expect(await former.ended).not.toBe(0)
      await former.says('STALE_TERM term 1 has begun')
      expect(await results()).toEqual([])
      expect(await client.lrange('jobs', 0, -1)).toEqual(['job 0'])
    },
  )

  test('queue-consumer: a failed job stays first and is retried', slowTest, async () => {
    const { client, machine, results } = await prepare(
      '[ -e "$FOLDER/tried" ] || { touch "$FOLDER/tried"; exit 3; }; cat',
    )
    await client.rpush('jobs', 'job 0', 'job 1')
    const only = machine('a')
    await only.says('restarting the command')
    await vi.waitUntil(async () => (await results()).length === 2, waitOptions)
    expect(await results()).toEqual(['job 0', 'job 1'])
  })
})
