import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { redis } from '../../../../test/servers/redis.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { redisFence, type RedisFenceOptions } from '../../src/fencing/index.ts'
import { hostileTerms } from './hostile-terms.ts'
import { tokensOfTwoOwners } from './shard-tokens.ts'

const stale = expect.objectContaining({ code: 'STALE_TERM' })

interface Opened {
  readonly client: RedisFenceOptions['client']
  close(): unknown
}

const clients: Record<string, (url: string) => Promise<Opened>> = {
  async ioredis(url) {
    const client = new Redis(url)
    client.on('error', () => {})
    return { client, close: () => client.disconnect() }
  },
  async redis(url) {
    const client = createClient({ url })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => client.destroy() }
  },
}

describeWith(redis, 'redisFence', (server) => {
  let reader: Redis
  beforeAll(() => {
    reader = new Redis(server().url)
    reader.on('error', () => {})
  })
  afterAll(() => reader.disconnect())

  describe.each(Object.entries(clients))('redisFence with a client of %s', (name, open) => {
    let opened: Opened
    let count = 0
    let resource = ''
    beforeAll(async () => {
      opened = await open(server().url)
    })
    afterAll(() => opened.close())
    beforeEach(() => {
      resource = `${name} ${++count}`
    })
    const makeFence = () => redisFence({ client: opened.client, resource })

    test('write accepts rising and equal terms and refuses lower ones', async () => {
      const fence = makeFence()
      for (const term of [3, 3, 10]) expect(await fence.write(term, ['SET', 'report', `term ${term}`])).toBe('OK')
      const late = fence.write(9, ['SET', 'report', 'term 9'])
      await expect(late).rejects.toThrow(stale)
      await expect(late).rejects.toThrow(new RegExp(`"${resource}".*term 9.*term 10`))
      expect(await reader.get('report')).toBe('term 10')
      expect(await reader.get(fence.key)).toBe('10')
      expect(await reader.ttl(fence.key)).toBe(-1)
    })

    test('write refuses the token of a former owner of a shard, and accepts that of the next one', async () => {
      const { old, next } = await tokensOfTwoOwners()
      const fence = makeFence()
      await fence.write(old, ['SET', `${resource} data`, 'old'])
      await fence.write(next, ['SET', `${resource} data`, 'next'])
      await expect(fence.write(old, ['SET', `${resource} data`, 'late'])).rejects.toThrow(stale)
      expect(await reader.get(`${resource} data`)).toBe('next')
    })

    test('write distinguishes the largest terms and stores them as digits', async () => {
      const fence = makeFence()
      await fence.write(Number.MAX_SAFE_INTEGER - 1, ['SET', 'report', 'a'])
      await fence.write(Number.MAX_SAFE_INTEGER, ['SET', 'report', 'b'])
      await expect(fence.write(Number.MAX_SAFE_INTEGER - 1, ['SET', 'report', 'c'])).rejects.toThrow(stale)
      expect(await reader.get(fence.key)).toBe('9007199254740991')
      expect(await reader.get('report')).toBe('b')
    })

    test('write runs any command that writes one key, and returns its reply', async () => {
      const fence = makeFence()
      const key = `${resource} data`
      const bytes = Buffer.from([0, 255, 13, 10])
      expect(await fence.write(1, ['HSET', key, 'a', 1, 'b', bytes])).toBe(2)
      expect(await fence.write(1, ['HINCRBY', key, 'a', 41])).toBe(42)
      expect(await reader.hgetBuffer(key, 'b')).toEqual(bytes)
      expect(await fence.write(1, ['DEL', key])).toBe(1)
      expect(await fence.write(1, ['SET', key, 'new', 'XX'])).toBeNull()
    })

    test('accepted terms never decrease with concurrent writers on several connections', async () => {
      const others = await Promise.all([open(server().url), open(server().url), open(server().url)])
      const key = `${resource} journal`
      const terms = Array.from({ length: 200 }, (_, index) => 1 + ((index * 7) % 60))
      const outcomes = await Promise.allSettled(
        terms.map((term, index) => {
          const { client } = others[index % others.length] ?? opened
          return redisFence({ client, resource }).write(term, ['RPUSH', key, term])
        }),
      )
      const accepted = (await reader.lrange(key, 0, -1)).map(Number)
      expect(accepted).toEqual(accepted.toSorted((a, b) => a - b))
      expect(accepted.at(-1)).toBe(60)
      const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
      expect(accepted.length + refused.length).toBe(200)
      expect(refused.length).toBeGreaterThan(0)
      for (const { reason } of refused) expect(reason).toMatchObject({ code: 'STALE_TERM' })
      for (const other of others) other.close()
    })

    test('write rejects with the error from Redis when the command fails, and its term counts as accepted', async () => {
      const fence = makeFence()
      const key = `${resource} data`
      await fence.write(1, ['SET', key, 'text'])
      await expect(fence.write(2, ['RPUSH', key, 'a'])).rejects.toThrow(/WRONGTYPE/)
      await expect(fence.write(2, ['NOSUCHCOMMAND', key])).rejects.toThrow(/unknown/i)
      expect(await reader.get(key)).toBe('text')
      await expect(fence.write(1, ['SET', key, 'late'])).rejects.toThrow(stale)
    })

    test.each(['garbage', 'nan', ''])(
      'write changes nothing when the highest term was replaced by %o',
      async (garbage) => {
        const fence = makeFence()
        await reader.set(fence.key, garbage)
        await expect(fence.write(5, ['SET', `${resource} data`, 'a'])).rejects.toThrow()
        expect(await reader.get(`${resource} data`)).toBeNull()
        expect(await reader.get(fence.key)).toBe(garbage)
      },
    )

    test('the highest term survives a killed server', async () => {
      const fence = makeFence()
      await fence.write(5, ['SET', 'report', 'term 5'])
      await server().restart('SIGKILL')
      const again = await open(server().url)
      const late = redisFence({ client: again.client, resource }).write(4, ['SET', 'report', 'term 4'])
      await expect(late).rejects.toThrow(stale)
      again.close()
    })

    test.each(hostileTerms.map((term) => [term]))('write refuses %o as a term', async (term) => {
      const write = makeFence().write(term as number, ['SET', `${resource} data`, 'a'])
      await expect(write).rejects.toThrow(expect.objectContaining({ name: 'TypeError', code: 'INVALID_OPTION' }))
      expect(await reader.get(`${resource} data`)).toBeNull()
    })

    test('write refuses to overwrite the highest term, and refuses invalid commands', async () => {
      const fence = makeFence()
      const invalid = expect.objectContaining({ code: 'INVALID_OPTION' })
      await expect(fence.write(5, ['DEL', fence.key])).rejects.toThrow(invalid)
      await expect(fence.write(5, ['FLUSHALL'] as unknown as ['SET', 'key'])).rejects.toThrow(invalid)
    })
  })

  test('redisFence applies the key prefix of an ioredis client', async () => {
    const client = new Redis(server().url, { keyPrefix: 'app:' })
    const fence = redisFence({ client, resource: 'prefixed' })
    await fence.write(5, ['SET', 'report', 'a'])
    expect(await reader.get('app:report')).toBe('a')
    expect(await reader.get(`app:${fence.key}`)).toBe('5')
    client.disconnect()
  })

  test('clients of ioredis and redis share the highest term of a fence', async () => {
    const [first, second] = await Promise.all(Object.values(clients).map((open) => open(server().url)))
    if (!first || !second) throw new Error('two clients are needed')
    await redisFence({ client: first.client, resource: 'shared' }).write(5, ['SET', 'report', 'a'])
    const late = redisFence({ client: second.client, resource: 'shared' }).write(4, ['SET', 'report', 'b'])
    await expect(late).rejects.toThrow(stale)
    first.close()
    second.close()
  })
})
