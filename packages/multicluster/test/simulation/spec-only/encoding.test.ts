import { expect, test } from 'vitest'
import { Random } from '../../../../testing/src/simulation/random.ts'
import { noCounts, violationOf } from './invariants.ts'
import { Encoding } from './encoding.ts'
import { specOnlyWorld, setupOf } from './index.ts'
import { allMoves, movesOf } from './moves.ts'
import { specOnlyFaults, firstScene, type Scene } from './scene.ts'

const setup = setupOf({
  budget: 3,
  looks: true,
  candidates: [0, 0, 1],
  relays: [
    { cluster: 0, isFirst: true },
    { cluster: 0, isFirst: false },
    { cluster: 1, isFirst: true },
  ],
  faults: specOnlyFaults,
})
const encoding = new Encoding(setup)

const text = (scene: Scene, ticks = 0) => Buffer.from(encoding.write(scene, ticks)).toString('latin1')
const read = (written: string) => encoding.read(Buffer.from(written, 'latin1'), 0)

function followers(scene: Scene): string[] {
  const next = movesOf(scene, setup).map(({ what, run }) => {
    const after = run()
    return `${what.replace(/\d+$/, '')} ${text(after)} ${violationOf(scene, after, setup)?.replaceAll(/\d+/g, '')}`
  })
  return [...next, text(scene, 1)]
}

test('a model state and its decoded copy have the same successors', { timeout: 60_000 }, () => {
  const random = new Random(1)
  let ticks = 0
  for (let walk = 0; walk < 15; walk += 1) {
    let scene = firstScene(setup)
    for (let step = 0; step < 100; step += 1) {
      const kept = read(text(scene))
      expect(text(kept)).toBe(text(scene))
      expect(followers(kept)).toEqual(followers(scene))
      const moves = movesOf(scene, setup)
      const hasToMove = moves.some(({ isUrgent }) => isUrgent)
      if (!hasToMove) ticks += 1
      scene = hasToMove ? random.pick(moves).run() : { ...read(text(scene, 1)), dawn: true }
    }
  }
  expect(ticks).toBeGreaterThan(30)
})

test('the moves that the partial order reduction leaves out lead to no other state', { timeout: 60_000 }, () => {
  const small = setupOf({ leaseTicks: 2, deadlineTicks: 1, faults: ['stop'] })
  const world = specOnlyWorld(small, noCounts())
  const textOf = (scene: Scene, ticks = 0) => Buffer.from(world.write(scene, ticks)).toString('latin1')
  const readOf = (written: string) => world.read(Buffer.from(written, 'latin1'), 0)
  const known = new Set<string>()
  const waiting = [textOf(world.first)]
  for (const written of waiting) {
    if (known.has(written)) continue
    known.add(written)
    world.expand(readOf(written), (next) => waiting.push(textOf(next)) > 0)
  }
  const random = new Random(1)
  let ticks = 0
  for (let walk = 0; walk < 40; walk += 1) {
    let scene = firstScene(small)
    for (let step = 0; step < 150; step += 1) {
      const moves = allMoves(scene, small)
      if (moves.some(({ isUrgent }) => isUrgent)) {
        scene = random.pick(moves).run()
        continue
      }
      const written = textOf(scene)
      expect(known.has(written)).toBe(true)
      const later = readOf(textOf(scene, 1))
      scene = { ...later, dawn: [...later.candidates, ...later.relays].some(({ life }) => life !== 'running') }
      ticks += 1
    }
  }
  expect(ticks).toBeGreaterThan(200)
})
