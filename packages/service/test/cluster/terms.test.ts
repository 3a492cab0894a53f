import { expect, test } from 'vitest'
import type { Replica } from '../../src/replication/replica.ts'
import { HighestTerm } from '../../src/replication/highest-term.ts'
import { open } from './scene.ts'

test('a term that belongs to no replica is not forwarded once that is known', async () => {
  const { clock, start } = open()
  const one: Replica = start('one', { onForgotten: (term) => terms.forget(term) })
  const terms: HighestTerm = new HighestTerm(one, (term) => one.sawTerm(term))
  await clock.advance(10)
  expect(terms.highest).toBe(1)
  terms.saw(1e15)
  expect(terms.highest).toBe(1e15)
  await clock.advance(10_000)
  expect(one.now()).toMatchObject({ kind: 'here', term: 2 })
  expect(terms.highest).toBe(2)
  terms.saw(1e15)
  expect(terms.highest).toBe(2)
  await clock.advance(10_000)
  expect(one.now()).toMatchObject({ kind: 'here', term: 2 })
})
