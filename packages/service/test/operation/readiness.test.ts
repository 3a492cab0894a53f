import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Readiness } from '../../src/operation/readiness.ts'
import { open } from '../groups/scene.ts'

test('readiness checks write to the disk at most once a second, however many there are', async () => {
  const scene = await open()
  const readiness = new Readiness(scene.state, scene.clock)
  const commits = () => Number(readFileSync(join(scene.directory, 'lock'), 'latin1').slice(0, 16))
  const before = commits()
  for (let round = 0; round < 3; round++) {
    await Promise.all(Array.from({ length: 50 }, () => readiness.check()))
    await readiness.check()
    await scene.clock.advance(999)
    await readiness.check()
    expect(commits()).toBe(before + round + 1)
    await scene.clock.advance(1)
  }
})
