import { describe, expect, test } from 'vitest'
import type { ElectionEvent, ElectionsOptions, TtlStorage } from '../../src/index.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import { createElections } from '../../src/api/create-elections.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { follow, never } from '../promise-outcome.ts'

type Verb = keyof TtlStorage<string, string>
type Fault = 'error' | 'hang' | 'reply-lost'

/** The connection of one process to a real TTL storage. */
function connection(inner: TtlStorage<string, string>, clock: FakeClock) {
  const calls: { verb: Verb; args: unknown[]; atMs: number }[] = []
  const link = { fault: (_verb: Verb): Fault | undefined => undefined }
  const wrap =
    <A extends unknown[]>(verb: Verb, send: (...args: A) => Promise<boolean> | boolean) =>
    async (...args: A): Promise<boolean> => {
      calls.push({ verb, args, atMs: clock.monotonicMs() })
      const fault = link.fault(verb)
      if (fault === 'error') throw new Error(`${verb} failed`)
      if (fault === 'hang') return never
      const answer = await send(...args)
      return fault === 'reply-lost' ? never : answer
    }
  const storage: TtlStorage<string, string> = {
    insertIfNotExist: wrap('insertIfNotExist', inner.insertIfNotExist),
    compareAndSwap: wrap('compareAndSwap', inner.compareAndSwap),
    compareAndDelete: wrap('compareAndDelete', inner.compareAndDelete),
  }
  return { storage, calls, link }
}

function scene(more: Partial<ElectionsOptions<string, string>> = {}) {
  const clock = fakeClock()
  const inner = memoryTtlStorage<string, string>({ clock })
  const remarks: string[] = []
  const events: ElectionEvent[] = []
  const { storage, calls, link } = connection(inner, clock)
  const elections = createElections<string, string>({
    storage,
    clock,
    log: { info: () => undefined, warn: (text) => void remarks.push(text), error: (text) => void remarks.push(text) },
    observer: { onEvent: (event) => void events.push(event) },
    ...more,
  })
  const verbs = () => calls.map(({ verb }) => verb)
  return { clock, inner, elections, calls, verbs, link, remarks, events }
}

const fiveSeconds = { durationMs: 5_000 }

describe('Document 001: Flowchart', () => {
  test('Caller calls AcquireLeadership -> Elections finalized? -- No -> InsertIfNotExist(key,val,ttl)', async () => {
    const { elections, calls } = scene()
    await elections.acquireLeadership('k', 'v', fiveSeconds)
    expect(calls).toEqual([{ verb: 'insertIfNotExist', args: ['k', 'v', 5_000], atMs: 0 }])
  })

  test('Elections finalized? -- Yes -> Return nil (no leadership)', async () => {
    const { elections, calls } = scene()
    await elections.close()
    expect(await elections.acquireLeadership('k', 'v', fiveSeconds)).toBeUndefined()
    expect(calls).toEqual([])
  })

  test('InsertIfNotExist -- Fail -> Return nil (no leadership)', async () => {
    const { elections, inner, verbs, clock } = scene()
    await inner.insertIfNotExist('k', 'theirs', 60_000)
    expect(await elections.acquireLeadership('k', 'v', fiveSeconds)).toBeUndefined()
    await clock.advance(120_000)
    expect(verbs(), 'there is only one try').toEqual(['insertIfNotExist'])
    expect(clock.timers).toBe(0)
  })

  test('InsertIfNotExist -- Err -> Return nil (no leadership), and the error is reported', async () => {
    const { elections, link, verbs, events, remarks, clock } = scene()
    link.fault = () => 'error'
    expect(await elections.acquireLeadership('k', 'v', fiveSeconds)).toBeUndefined()
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'error', error: new Error('insertIfNotExist failed') }),
    )
    expect(remarks).toEqual([expect.stringContaining('insertIfNotExist failed')])
    await clock.advance(60_000)
    expect(verbs()).toEqual(['insertIfNotExist'])
    expect(clock.timers).toBe(0)
  })

  test('InsertIfNotExist -- Succeed -> Create leadership ctx, return ctx to caller', async () => {
    const { elections } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    expect(held).toBeInstanceOf(AbortSignal)
    expect(held?.aborted).toBe(false)
  })

  test('Spawn renewal -> Wait (duration/2) -> CompareAndSwap(key,val,val,ttl) -- OK -> Wait (duration/2)', async () => {
    const { elections, calls, clock } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    await clock.advance(10_000)
    expect(calls.slice(1)).toEqual(
      [2_500, 5_000, 7_500, 10_000].map((atMs) => ({ verb: 'compareAndSwap', args: ['k', 'v', 'v', 5_000], atMs })),
    )
    expect(held?.aborted).toBe(false)
  })

  test('CompareAndSwap -- Fail -> ReleaseLeadership(key): a false answer ends leadership at once', async () => {
    const { elections, inner, remarks, verbs, clock } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    await inner.compareAndDelete('k', 'v')
    await inner.insertIfNotExist('k', 'theirs', 60_000)
    await clock.advance(2_499)
    expect(held?.aborted).toBe(false)
    await clock.advance(1)
    expect(held?.reason).toMatchObject({ code: 'LEADERSHIP_LOST', reason: 'superseded' })
    await elections.releaseLeadership('k')
    expect(remarks, 'the key is no longer held').toEqual([
      expect.stringContaining('lost leadership of "k": its record was deleted or overwritten in the store'),
      expect.stringContaining('is not held'),
    ])
    expect(await inner.compareAndSwap('k', 'theirs', 'theirs', 60_000), 'the successor was not touched').toBe(true)
    await clock.advance(60_000)
    expect(verbs().filter((verb) => verb === 'compareAndSwap')).toHaveLength(1)
    expect(clock.timers).toBe(0)
  })

  test("CompareAndSwap -- Err -> ReleaseLeadership(key) when onStorageError is 'release'", async () => {
    const { elections, inner, link, clock, verbs, remarks } = scene({ onStorageError: 'release' })
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    link.fault = (verb) => (verb === 'compareAndSwap' ? 'error' : undefined)
    await clock.advance(2_500)
    expect(held?.aborted).toBe(true)
    expect(remarks).toEqual([
      expect.stringContaining('renewing "k" failed: compareAndSwap failed'),
      expect.stringContaining(`gave up leadership of "k" because a renewal failed (onStorageError: 'release')`),
      expect.stringContaining('the store answers again'),
    ])
    expect(verbs()).toEqual(['insertIfNotExist', 'compareAndSwap', 'compareAndDelete'])
    expect(await inner.insertIfNotExist('k', 'theirs', 1_000), 'the key is free').toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('CompareAndSwap -- Err: by default the renewal is retried until the deadline', async () => {
    const { elections, link, clock, calls } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    link.fault = (verb) => (verb === 'compareAndSwap' ? 'error' : undefined)
    await clock.advance(3_999)
    expect(held?.aborted).toBe(false)
    expect(calls.slice(1).map(({ atMs }) => atMs)).toEqual([2_500, 3_000, 3_500])
    await clock.advance(1)
    expect(held?.reason).toMatchObject({ reason: 'expired' })
  })

  test('CompareAndSwap -- Err, then OK: leadership continues', async () => {
    const { elections, link, clock } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    link.fault = (verb) => (verb === 'compareAndSwap' && clock.monotonicMs() < 3_400 ? 'error' : undefined)
    await clock.advance(600_000)
    expect(held?.aborted).toBe(false)
  })

  test('Caller calls ReleaseLeadership -> Key held locally? -- No -> Logs not held, done', async () => {
    const { elections, calls, remarks } = scene()
    await elections.releaseLeadership('k')
    expect(remarks).toEqual([expect.stringMatching(/"?k"? is not held/)])
    expect(calls).toEqual([])
  })

  test('Key held locally? -- Yes -> CompareAndDelete(key,val), cancel leadership context, end leadership', async () => {
    const { elections, inner, calls, clock } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    await elections.releaseLeadership('k')
    expect(held?.reason).toMatchObject({ reason: 'stopped' })
    expect(calls.at(-1)).toMatchObject({ verb: 'compareAndDelete', args: ['k', 'v'] })
    expect(await inner.insertIfNotExist('k', 'theirs', 1_000)).toBe(true)
    await clock.advance(60_000)
    expect(calls, 'no renewal after it').toHaveLength(2)
    expect(clock.timers).toBe(0)
  })

  test('the signal aborts before the key is deleted, so that two processes never lead at once', async () => {
    const { elections, link } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    let abortedAtDelete: boolean | undefined
    link.fault = (verb) => {
      if (verb === 'compareAndDelete') abortedAtDelete = held?.aborted
      return undefined
    }
    await elections.releaseLeadership('k')
    expect(abortedAtDelete).toBe(true)
  })
})

describe('Document 001: AcquireLeadership', () => {
  test('the context stays active until leadership is lost or explicitly released', async () => {
    const { elections, clock } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    await clock.advance(3_600_000)
    expect(held?.aborted).toBe(false)
    await elections.releaseLeadership('k')
    expect(held?.aborted).toBe(true)
  })

  test('the context ends before the TTL when the storage hangs', async () => {
    const { elections, link, clock } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    link.fault = () => 'hang'
    await clock.advance(3_999)
    expect(held?.aborted).toBe(false)
    await clock.advance(1)
    expect(held?.aborted).toBe(true)
  })

  test('acquireLeadership returns undefined in bounded time when the storage never answers the insert', async () => {
    const { elections, link, clock } = scene()
    link.fault = () => 'hang'
    const held = follow(elections.acquireLeadership('k', 'v', fiveSeconds))
    await clock.advance(5_000)
    expect(held).toMatchObject({ state: 'resolved', value: undefined })
    expect(clock.timers).toBe(0)
  })

  test('acquireLeadership returns undefined when the reply is lost, and nobody leads until the TTL has passed', async () => {
    const { elections, link, clock } = scene()
    link.fault = () => 'reply-lost'
    const held = follow(elections.acquireLeadership('k', 'v', fiveSeconds))
    await clock.advance(4_999)
    expect(held).toMatchObject({ state: 'resolved', value: undefined })
    link.fault = () => undefined
    expect(await elections.acquireLeadership('k', 'v2', fiveSeconds)).toBeUndefined()
    await clock.advance(1)
    expect(await elections.acquireLeadership('k', 'v3', fiveSeconds)).toBeInstanceOf(AbortSignal)
  })

  test('keys are independent, and a held key is not acquired twice', async () => {
    const { elections } = scene()
    const [a, b] = [
      await elections.acquireLeadership('a', '1', fiveSeconds),
      await elections.acquireLeadership('b', '2', fiveSeconds),
    ]
    expect(await elections.acquireLeadership('a', '3', fiveSeconds)).toBeUndefined()
    await elections.releaseLeadership('a')
    expect([a?.aborted, b?.aborted]).toEqual([true, false])
    expect(await elections.acquireLeadership('a', '4', fiveSeconds)).toBeInstanceOf(AbortSignal)
  })

  test("one of several processes wins, and another can win only after the winner's TTL has passed", async () => {
    const { clock, inner } = scene()
    const processes = Array.from({ length: 8 }, () => {
      const { storage, link } = connection(inner, clock)
      return { elections: createElections<string, string>({ storage, clock, log: false }), link }
    })
    const campaign = (round: string, candidates = processes) =>
      Promise.all(
        candidates.map(({ elections }, number) => elections.acquireLeadership('k', `${round}.${number}`, fiveSeconds)),
      )
    const wins = (results: (AbortSignal | undefined)[]) => results.filter((held) => held !== undefined).length

    const first = await campaign('one')
    expect(wins(first)).toBe(1)
    const winner = first.findIndex((held) => held !== undefined)
    const dead = processes[winner]
    if (dead) dead.link.fault = () => 'hang'
    const others = processes.filter((process) => process !== dead)
    await clock.advance(4_999)
    expect(wins(await campaign('two', others))).toBe(0)
    await clock.advance(1)
    expect(wins(await campaign('three', others))).toBe(1)
    expect(first[winner]?.aborted, 'the old context ended before').toBe(true)
  })

  test('a late delete of an earlier value does not free the key when values are unique', async () => {
    const { elections, inner } = scene()
    await elections.acquireLeadership('k', 'me:1', fiveSeconds)
    await elections.releaseLeadership('k')
    const again = await elections.acquireLeadership('k', 'me:2', fiveSeconds)
    expect(await inner.compareAndDelete('k', 'me:1'), 'a delayed delete of the first').toBe(false)
    expect(await inner.insertIfNotExist('k', 'theirs', 5_000)).toBe(false)
    expect(again?.aborted).toBe(false)
  })

  test('keys and values may have any type', async () => {
    const clock = fakeClock()
    const storage = memoryTtlStorage<{ id: number }, symbol>({ clock })
    const elections = createElections({ storage, clock })
    const [one, other] = [{ id: 1 }, { id: 1 }]
    expect(await elections.acquireLeadership(one, Symbol('a'), fiveSeconds)).toBeInstanceOf(AbortSignal)
    expect(await elections.acquireLeadership(one, Symbol('b'), fiveSeconds)).toBeUndefined()
    expect(await elections.acquireLeadership(other, Symbol('c'), fiveSeconds)).toBeInstanceOf(AbortSignal)
    await elections.close()
    expect(clock.timers).toBe(0)
  })
})

describe('Document 001: ReleaseLeadership', () => {
  test('releaseLeadership ends leadership and reports the error when the delete fails', async () => {
    const { elections, link, clock, events } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    link.fault = () => 'error'
    const release = follow(elections.releaseLeadership('k'))
    expect(held?.aborted).toBe(true)
    await clock.advance(5_000)
    expect(release.state).toBe('resolved')
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'error', error: new Error('compareAndDelete failed') }),
    )
    expect(clock.timers).toBe(0)
  })

  test('releaseLeadership resolves in bounded time when the delete is never answered', async () => {
    const { elections, link, clock } = scene()
    await elections.acquireLeadership('k', 'v', fiveSeconds)
    link.fault = () => 'hang'
    const release = follow(elections.releaseLeadership('k'))
    await clock.advance(5_000)
    expect(release.state).toBe('resolved')
    expect(clock.timers).toBe(0)
  })

  test('the second of two concurrent releaseLeadership calls finds nothing held', async () => {
    const { elections, verbs, remarks } = scene()
    await elections.acquireLeadership('k', 'v', fiveSeconds)
    await Promise.all([elections.releaseLeadership('k'), elections.releaseLeadership('k')])
    expect(verbs()).toEqual(['insertIfNotExist', 'compareAndDelete'])
    expect(remarks).toHaveLength(1)
  })
})

describe('Document 001: Performing Cleanup', () => {
  test('close stops all renewals, cancels every context, deletes held keys, and disallows any future acquire', async () => {
    const { elections, inner, calls, clock } = scene()
    const held = await Promise.all(
      ['a', 'b', 'c'].map((key) => elections.acquireLeadership(key, `v-${key}`, fiveSeconds)),
    )
    await elections.close()
    expect(held.map((signal) => signal?.aborted)).toEqual([true, true, true])
    for (const key of ['a', 'b', 'c']) expect(await inner.insertIfNotExist(key, 'theirs', 5_000)).toBe(true)
    const { length } = calls
    expect(await elections.acquireLeadership('d', 'v', fiveSeconds)).toBeUndefined()
    await clock.advance(60_000)
    expect(calls).toHaveLength(length)
    expect(clock.timers).toBe(0)
    await elections.close()
  })

  test('an acquire that is in flight during close returns undefined and releases what it won', async () => {
    const { elections, inner, clock } = scene()
    const held = follow(elections.acquireLeadership('k', 'v', fiveSeconds))
    const closed = follow(elections.close())
    await clock.advance(0)
    expect(closed.state).toBe('resolved')
    expect(held).toMatchObject({ state: 'resolved', value: undefined })
    expect(await inner.insertIfNotExist('k', 'theirs', 5_000)).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('close settles in bounded time when the storage never answers', async () => {
    const { elections, link, clock } = scene()
    const held = await elections.acquireLeadership('k', 'v', fiveSeconds)
    link.fault = () => 'hang'
    const closed = follow(elections.close())
    expect(held?.aborted).toBe(true)
    await clock.advance(5_000)
    expect(closed.state).toBe('resolved')
    expect(clock.timers).toBe(0)
  })
})

test('the error for an invalid durationMs of acquireLeadership names that option', async () => {
  const { elections, calls } = scene()
  for (const durationMs of [0, -1, 99, NaN, Infinity, 2 ** 31, '5000', null, undefined]) {
    const acquire = elections.acquireLeadership('k', 'v', { durationMs } as { durationMs: number })
    await expect(acquire).rejects.toThrow(TypeError)
    await expect(acquire).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('"durationMs"'),
    })
  }
  expect(calls).toEqual([])
})

test('a key that is won during close is released and never reported as held', async () => {
  let closed: Promise<void> | undefined
  const { clock, elections, inner } = scene({
    observer: { onEvent: ({ type }) => void (type === 'elected' && (closed = elections.close())) },
  })
  const acquired = follow(elections.acquireLeadership('k', 'v', { durationMs: 5_000 }))
  await clock.advance(10)
  await closed
  expect(acquired).toMatchObject({ state: 'resolved', value: undefined })
  expect(await inner.insertIfNotExist('k', 'other', 5_000)).toBe(true)
})
