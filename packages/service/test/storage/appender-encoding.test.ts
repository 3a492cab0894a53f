import { expect, test } from 'vitest'
import { Random } from '../../../testing/src/simulation/random.ts'
import { Course, noCounts } from '../simulation/appender/invariants.ts'
import { readScene, writeScene } from '../simulation/appender/encoding.ts'
import { movesOf } from '../simulation/appender/moves.ts'
import { appenderFaults, firstScene, type Scene, type Setup } from '../simulation/appender/scene.ts'

const setup: Setup = { replicas: 3, groups: 2, budget: 3, faults: new Set(appenderFaults) }

const text = (scene: Scene) => Buffer.from(writeScene(scene)).toString('latin1')
const read = (written: string) => readScene(Buffer.from(written, 'latin1'), 0)

/**
 * Returns all possible successors of a state. An orphan that can no longer change anything may be left out, so the
 * state itself is included.
 */
function followers(scene: Scene): string[] {
  const all = movesOf(scene, setup).map(({ run }) => {
    const course = new Course(setup, noCounts())
    return `${text(run(course))} ${course.violation ?? ''}`
  })
  return [...new Set([...all, `${text(scene)} `])].toSorted()
}

test('a model state and its decoded copy have the same successors', () => {
  const random = new Random(1)
  for (let walk = 0; walk < 80; walk += 1) {
    let scene = firstScene(setup)
    for (let step = 0; step < 40; step += 1) {
      const kept = read(text(scene))
      expect(text(kept)).toBe(text(scene))
      expect(followers(kept)).toEqual(followers(scene))
      const { fault, run } = random.pick(movesOf(scene, setup))
      const after = run(new Course(setup, noCounts()))
      scene = fault ? { ...after, budget: after.budget - 1 } : after
    }
  }
})
