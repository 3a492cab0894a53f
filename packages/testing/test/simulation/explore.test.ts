import { describe, expect, test } from 'vitest'
import { explore, retrace, type ExploreOptions } from '../../src/simulation/explore.ts'
import { Fingerprints, hashOf } from '../../src/simulation/explore/fingerprints.ts'

const small: ExploreOptions = { watch: false, leaseTicks: 6 }

describe('explore()', () => {
  test('explore covers two electors without a fault: one elector leads and continues to lead', async () => {
    const report = await explore({ ...small, budget: 0 })
    expect(report.ok && report.complete, String(report)).toBe(true)
    expect(report.counts).toMatchObject({ handovers: 0, expiries: 0, superseded: 0, faults: {} })
    expect(report.counts.grants).toBeGreaterThan(0)
  })

  test('explore returns the same report for the same options', async () => {
    const options: ExploreOptions = { ...small, faults: ['touched-record'], states: 1_000 }
    const [one, other] = [await explore(options), await explore(options)]
    expect(String(other)).toBe(String(one))
    expect(one.counts.faults['touched-record']).toBeGreaterThan(0)
  })

  test('explore reports an incomplete search when a limit is reached', async () => {
    const report = await explore({ ...small, faults: ['crash'], states: 100 })
    expect(report).toMatchObject({ ok: true, complete: false })
    expect(String(report)).toMatch(/^NOT complete: the limit of 100 states was reached/)
  })

  test('explore covers a handover after a step-down', async () => {
    const report = await explore({ ...small, faults: ['step-down'], states: 2_000 })
    expect(report.ok, String(report)).toBe(true)
    expect(report.counts.handovers).toBeGreaterThan(0)
  })

  test('explore covers releases by the guard of a process that crashed', async () => {
    const report = await explore({ ...small, releaseOnCrash: true, faults: ['crash'], states: 2_000 })
    expect(report.ok, String(report)).toBe(true)
    expect(report.counts.crashReleases).toBeGreaterThan(0)
  })

  test('retrace describes a trace in words', () => {
    const story = retrace(small, [0])
    expect(story).toMatch(/^tick {2}\(a lease has 6\)\n {3}0 {2}a starts\n {6}a sends acquire after term 0$/)
  })

  test('retrace rejects a trace that does not exist with these options', () => {
    expect(() => retrace(small, [0, 999])).toThrow(/step 2 does not exist/)
  })

  test.each([
    [{ electors: 0 }, 'electors'],
    [{ faults: ['crashs'] }, 'faults'],
    [{ leaseTicks: 7 }, 'leaseTicks'],
    [{ jitter: [1] }, 'jitter'],
    [{ jitter: [] }, 'jitter'],
    [{ jitter: 0 }, 'jitter'],
    [{ faults: 'crash' }, 'faults'],
    [{ faults: ['watch-end'], watch: false }, 'faults'],
    [{ faults: ['closed-pipe'] }, 'faults'],
    [{ releaseOnCrash: 'yes' }, 'releaseOnCrash'],
    [{ rates: [2] }, 'rates'],
    [{ seconds: 0 }, 'seconds'],
  ])('explore rejects the options %j', async (options, option) => {
    await expect(explore(options as ExploreOptions)).rejects.toMatchObject({ code: 'INVALID_OPTION', option })
  })
})

test('fingerprints are still found after the set has grown', () => {
  const known = new Fingerprints()
  const prints = Array.from({ length: 20_000 }, (_, index) => hashOf(Uint8Array.of(index & 255, index >> 8, 7)))
  expect(prints.filter(([low, high]) => known.add(low, high))).toHaveLength(prints.length)
  expect(prints.filter(([low, high]) => known.add(low, high))).toEqual([])
  expect(known.size).toBe(20_000)
})
