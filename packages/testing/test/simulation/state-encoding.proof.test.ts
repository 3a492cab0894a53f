/**
 * The encoding maps model states that behave alike to the same text. A state and its decoded copy must therefore have
 * the same successors.
 */
import { expect, test } from 'vitest'
import { memoryWith } from '../../../tenure/src/engine/election-fields.ts'
import { setupOf, type ExploreOptions } from '../../src/simulation/explore.ts'
import { noCounts } from '../../src/simulation/explore/checker.ts'
import { Encoding, inPlace } from '../../src/simulation/explore/encoding.ts'
import { serverWith, slotWith } from '../../src/simulation/explore/model-state-fields.ts'
import { firstScene, type ModelState, type Setup, type ModelSlot } from '../../src/simulation/explore/model-state.ts'
import { expand } from '../../src/simulation/explore/transitions.ts'
import { Random } from '../../src/simulation/random.ts'
import { later } from './shift-times.ts'

const walks = 4
const steps = 200
const budget = 4

const circumstances: readonly ExploreOptions[] = [
  { watch: false, leaseTicks: 6 },
  { leaseTicks: 6 },
  { watch: false, leaseTicks: 6, expiry: 'own-clock' },
  { watch: false, leaseTicks: 6, rates: [0.875, 1.125] },
  { leaseTicks: 6, jitter: [0, 0.5] },
  { leaseTicks: 24, delayTicks: 1 },
  { leaseTicks: 6, electors: 3 },
  { watch: false, leaseTicks: 6, releaseOnCrash: true },
  { leaseTicks: 6, releaseOnCrash: true },
  { leaseTicks: 6, priorities: ['lowest', 'low'], faults: ['hand-over', 'ineligible', 'no-progress', 'crash'] },
  { leaseTicks: 6, readsFirst: true },
  { leaseTicks: 6, newerGeneration: true, faults: ['hand-over', 'crash', 'step-down'] },
  { watch: false, leaseTicks: 6, newerGeneration: true, priorities: ['lowest', 'lowest'], faults: ['crash'] },
  { watch: false, leaseTicks: 6, priorities: ['low'], faults: ['hand-over', 'ineligible', 'no-progress', 'stall'] },
]

function after(scene: ModelState, ticks: number, { tickMs, ticksMs, delayTicks }: Setup): ModelState {
  const server = serverWith(later(ticks * tickMs, 0), scene.server, { ownClock: true, past: true })
  const slots = scene.slots.map((slot, who): ModelSlot => {
    const passedMs = ticks * (ticksMs[who] ?? tickMs)
    const fields = later(slot.life === 'asleep' ? 0 : passedMs, passedMs)
    const moved = slotWith(fields, slot)
    return slot.state
      ? ({ ...moved, state: { ...moved.state, ...memoryWith(fields, slot.state) } } as ModelSlot)
      : moved
  })
  const messages = scene.messages.map((message) => {
    const ageTicks = message.late ? 0 : Math.min(delayTicks, message.ageTicks + ticks)
    return { ...message, ageTicks }
  })
  return { ...scene, server, slots, messages: inPlace(messages) }
}

interface Following {
  readonly next: ModelState
  readonly ticks: number
  readonly isFault: boolean
  readonly what: string
  /** The encoded next state and its violation, if any. */
  readonly key: string
}

function followings(scene: ModelState, setup: Setup, encoding: Encoding): Following[] {
  const all: Following[] = []
  expand(scene, setup, noCounts(), (next, ticks, { violation = '' }, _number, move) => {
    const key = `${Buffer.from(encoding.write(next, ticks)).toString('latin1')} ${violation}`
    all.push({ next, ticks, isFault: move.fault !== undefined, what: `${move.who} ${move.what()}`, key })
    return true
  })
  return all
}

test.each(circumstances)('a state and its decoded copy have the same successors with the options %j', (options) => {
  const setup = setupOf(options)
  const encoding = new Encoding(setup)
  for (let seed = 1; seed <= walks; seed += 1) {
    const random = new Random(seed)
    const story: string[] = []
    let scene = firstScene(setup.settings.length, budget)
    for (let step = 0; step < steps; step += 1) {
      const raw = followings(scene, setup, encoding)
      const taken = followings(encoding.read(encoding.write(scene, 0).slice(), 0), setup, encoding)
      const keys = new Set(taken.map(({ key }) => key))
      const apart = raw.filter(({ key }) => !keys.has(key)).map(({ what }) => what)
      expect({ apart, count: taken.length }, story.join('\n')).toEqual({ apart: [], count: raw.length })
      const faults = raw.filter(({ isFault }) => isFault)
      const natural = raw.filter(({ isFault }) => !isFault)
      const time = natural.filter(({ ticks }) => ticks > 0)
      const kinds =
        faults.length > 0 && random.chance(0.06) ? faults : time.length > 0 && random.chance(0.5) ? time : natural
      const { next, ticks, what } = random.pick(kinds)
      story.push(what)
      scene = after(next, ticks, setup)
    }
  }
})
