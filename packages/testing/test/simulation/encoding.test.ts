import { expect, test } from 'vitest'
import { noPreference } from '../../../tenure/src/engine/preference.ts'
import { resolveTimings } from '../../../tenure/src/engine/timings.ts'
import { noCounts } from '../../src/simulation/explore/checker.ts'
import { Encoding } from '../../src/simulation/explore/encoding.ts'
import {
  exploredFaults,
  firstScene,
  leaseDurationMs,
  type ModelState,
  type Setup,
} from '../../src/simulation/explore/model-state.ts'
import { expand } from '../../src/simulation/explore/transitions.ts'

const unguarded: Setup = {
  settings: ['a', 'b'].map((identity) => ({
    ...resolveTimings({ leaseDurationMs, retryIntervalMs: leaseDurationMs / 6 }),
    ...noPreference,
    election: 'e',
    identity,
    metadata: {},
    drainTimeoutMs: leaseDurationMs,
    releaseOnStop: true,
    canWatch: true,
    readsFirst: false,
    terms: true,
    until: 'stopped',
    waitMs: 0,
  })),
  tickMs: leaseDurationMs / 6,
  ticksMs: [leaseDurationMs / 6, leaseDurationMs / 6],
  faults: new Set(exploredFaults),
  expiry: 'observed',
  jitter: [0],
  delayTicks: 0,
}

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1')

test.each([false, true])('decoding returns the model state that was encoded, with guards: %s', (isGuarded) => {
  const setup: Setup = { ...unguarded, isGuarded }
  const encoding = new Encoding(setup)
  const known = new Set<string>()
  const waiting: ModelState[] = [firstScene(2, 1)]
  for (const scene of waiting) {
    if (known.size > 600) break
    expand(scene, setup, noCounts(), (next, ticks) => {
      const written = text(encoding.write(next, ticks))
      const read = encoding.read(Buffer.from(written, 'latin1'), 0)
      expect(text(encoding.write(read, 0))).toBe(written)
      if (!known.has(written)) waiting.push(read)
      known.add(written)
      return true
    })
  }
  expect(known.size).toBeGreaterThan(600)
})

test('states that differ only in the spelling of names and in the first term have the same encoding', () => {
  const encoding = new Encoding(unguarded)
  const record = (version: string, term: number) => ({
    election: 'e',
    holder: 'a',
    attempt: `attempt of ${version}`,
    term,
    leaseDurationMs,
    acquiredAt: 0,
    renewedAt: 0,
    released: false,
    metadata: {},
    checkpoint: '',
    version,
  })
  const scene = firstScene(2, 0)
  const withRecord = (version: string, term: number): ModelState => ({
    ...scene,
    server: { ...scene.server, record: record(version, term), highestTerm: term },
  })
  expect(text(encoding.write(withRecord('x', 7), 0))).toBe(text(encoding.write(withRecord('y', 3), 0)))
  const ahead = { ...withRecord('x', 7), server: { ...withRecord('x', 7).server, highestTerm: 8 } }
  expect(text(encoding.write(ahead, 0))).not.toBe(text(encoding.write(withRecord('x', 7), 0)))
})
