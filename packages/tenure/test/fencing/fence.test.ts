import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createFence } from '../../src/fencing/index.ts'
import { makeGate } from './gate.ts'
import { hostileTerms } from './hostile-terms.ts'
import { tokensOfTwoOwners } from './shard-tokens.ts'

describe('createFence', () => {
  test('check accepts rising and equal terms and refuses lower ones', () => {
    const fence = createFence({ resource: 'report' })
    expect(fence.highestTerm).toBe(0)
    for (const term of [3, 3, 5, 5]) fence.check(term)
    expect(() => fence.check(4)).toThrow(expect.objectContaining({ code: 'STALE_TERM', retryable: false }))
    expect(fence.highestTerm).toBe(5)
    fence.check(5)
  })

  test('check refuses the token of a former owner of a shard, and accepts that of the next one', async () => {
    const { old, next } = await tokensOfTwoOwners()
    const fence = createFence({ resource: 'shard 0' })
    for (const token of [old, next]) fence.check(token)
    expect(() => fence.check(old)).toThrow(expect.objectContaining({ code: 'STALE_TERM' }))
    expect(fence.highestTerm).toBe(next)
  })

  test('a refusal names the resource, the offered term and the highest accepted term', () => {
    const fence = createFence({ resource: 'report', highestTerm: 9 })
    expect(() => fence.check(4)).toThrow(/"report".*term 4.*term 9/)
  })

  test('a fence starts from the given highest term', () => {
    const fence = createFence({ highestTerm: Number.MAX_SAFE_INTEGER })
    expect(() => fence.check(Number.MAX_SAFE_INTEGER - 1)).toThrow(expect.objectContaining({ code: 'STALE_TERM' }))
    fence.check(Number.MAX_SAFE_INTEGER)
  })

  test('check never accepts a term below an accepted one, in any order', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 20 })), (terms) => {
        const fence = createFence()
        let highest = 0
        for (const term of terms) {
          const accepted = isAccepted(() => fence.check(term))
          expect(accepted).toBe(term >= highest)
          if (accepted) highest = term
        }
      }),
    )
  })

  test.each(hostileTerms.map((term) => [term]))(
    'a fence refuses %o as a term and keeps its highest term',
    async (term) => {
      const fence = createFence({ highestTerm: 3 })
      const invalid = expect.objectContaining({ name: 'TypeError', code: 'INVALID_OPTION' })
      expect(() => fence.check(term as number)).toThrow(invalid)
      await expect(fence.run(term as number, () => 'written')).rejects.toThrow(invalid)
      expect(fence.highestTerm).toBe(3)
    },
  )

  test.each([Number.NaN, -1, 1.5, 2 ** 53, '5', null])(
    'createFence refuses %o as the initial highest term',
    (highestTerm) => {
      const options = { highestTerm: highestTerm as number }
      expect(() => createFence(options)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    },
  )
})

describe('run of a fence', () => {
  test('a write ends before a write of a higher term begins', async () => {
    const fence = createFence()
    const gate = makeGate()
    const events: string[] = []
    const first = fence.run(4, async () => {
      events.push('4 begins')
      await gate.opened
      events.push('4 ends')
    })
    const second = fence.run(5, () => events.push('5 begins'))
    await turns()
    gate.open()
    await Promise.all([first, second])
    expect(events).toEqual(['4 begins', '4 ends', '5 begins'])
  })

  test('a queued write is refused when a higher term arrives', async () => {
    const fence = createFence()
    const gate = makeGate()
    const first = fence.run(4, () => gate.opened)
    const second = fence.run(5, () => expect.unreachable('term 5 wrote after term 6 was accepted'))
    const third = fence.run(6, () => 'written')
    await expect(fence.run(4, () => 'late')).rejects.toThrow(expect.objectContaining({ code: 'STALE_TERM' }))
    gate.open()
    await expect(second).rejects.toThrow(expect.objectContaining({ code: 'STALE_TERM' }))
    await expect(third).resolves.toBe('written')
    await first
  })

  test('writes of the same term run concurrently', async () => {
    const fence = createFence()
    const gate = makeGate()
    const first = fence.run(4, () => gate.opened)
    await fence.run(4, () => gate.open())
    await first
  })

  test('a write that fails rejects with its own error and does not block the next one', async () => {
    const fence = createFence()
    const failure = new Error('disk full')
    await expect(fence.run(4, () => Promise.reject(failure))).rejects.toBe(failure)
    const thrown = fence.run(4, () => {
      throw failure
    })
    const next = fence.run(5, () => 'written')
    await expect(thrown).rejects.toBe(failure)
    await expect(next).resolves.toBe('written')
  })

  test('writes of different terms never overlap, and none follows a higher term', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 12 }),
        async (s, terms) => {
          const fence = createFence()
          const active: number[] = []
          let highest = 0
          const writes = terms.map(async (term, index) => {
            await s.schedule(Promise.resolve(), `arrive ${index}`)
            await fence.run(term, async () => {
              expect(active.every((other) => other === term)).toBe(true)
              expect(term).toBeGreaterThanOrEqual(highest)
              highest = term
              active.push(term)
              await s.schedule(Promise.resolve(), `write ${index}`)
              active.splice(active.indexOf(term), 1)
            })
          })
          const settled = Promise.allSettled(writes)
          await s.waitFor(settled)
          for (const result of await settled) {
            if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'STALE_TERM' })
          }
          expect(highest).toBe(Math.max(0, ...terms))
        },
      ),
      { numRuns: 200 },
    )
  })
})

function isAccepted(check: () => void): boolean {
  try {
    check()
    return true
  } catch {
    return false
  }
}

/** Lets all pending promise callbacks run. */
function turns(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
