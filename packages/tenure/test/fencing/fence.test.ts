import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createFence } from '../../src/fencing/index.ts'
import { makeGate } from './gate.ts'
import { hostileTerms } from './hostile-terms.ts'

describe('A guard in memory', () => {
  test('accepts rising and equal terms and refuses lower ones', () => {
    const fence = createFence({ resource: 'report' })
    expect(fence.highestTerm).toBe(0)
    for (const term of [3, 3, 5, 5]) fence.check(term)
    expect(() => fence.check(4)).toThrow(expect.objectContaining({ code: 'STALE_TERM', retryable: false }))
    expect(fence.highestTerm).toBe(5)
    fence.check(5)
  })

  test('names the resource, the term offered and the highest one accepted', () => {
    const fence = createFence({ resource: 'report', highestTerm: 9 })
    expect(() => fence.check(4)).toThrow(/"report".*term 4.*term 9/)
  })

  test('goes on from the highest term it is given', () => {
    const fence = createFence({ highestTerm: Number.MAX_SAFE_INTEGER })
    expect(() => fence.check(Number.MAX_SAFE_INTEGER - 1)).toThrow(expect.objectContaining({ code: 'STALE_TERM' }))
    fence.check(Number.MAX_SAFE_INTEGER)
  })

  test('never accepts a term below one it accepted, whatever the order', () => {
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

  test.each(hostileTerms.map((term) => [term]))('refuses %o as a term and forgets nothing', async (term) => {
    const fence = createFence({ highestTerm: 3 })
    const invalid = expect.objectContaining({ name: 'TypeError', code: 'INVALID_OPTION' })
    expect(() => fence.check(term as number)).toThrow(invalid)
    await expect(fence.run(term as number, () => 'written')).rejects.toThrow(invalid)
    expect(fence.highestTerm).toBe(3)
  })

  test.each([Number.NaN, -1, 1.5, 2 ** 53, '5', null])(
    'refuses %o as the highest term to start from',
    (highestTerm) => {
      const options = { highestTerm: highestTerm as number }
      expect(() => createFence(options)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    },
  )
})

describe('A guarded write that takes time', () => {
  test('is over before a write of a higher term begins', async () => {
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

  test('is refused when a higher term came while it waited in line', async () => {
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

  test('runs side by side with others of the same term', async () => {
    const fence = createFence()
    const gate = makeGate()
    const first = fence.run(4, () => gate.opened)
    await fence.run(4, () => gate.open())
    await first
  })

  test('that fails gives its own error, and the way free', async () => {
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

  test('never overlaps one of another term, nor follows one of a higher term', async () => {
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

/** Lets everything run that waits for nothing but promises. */
function turns(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
