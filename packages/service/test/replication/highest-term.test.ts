import { expect, test } from 'vitest'
import { open } from './scene.ts'

test('a replica discards a reported term once it knows that no replica has that term', async () => {
  const { clock, start } = open()
  const one = start('one')
  const { terms } = one
  await clock.advance(10)
  expect(terms.highest).toBe(1)
  terms.observe(1e15)
  expect(terms.highest).toBe(1e15)
  await clock.advance(10_000)
  expect(one.now()).toMatchObject({ kind: 'local', term: 2 })
  expect(terms.highest).toBe(2)
  terms.observe(1e15)
  expect(terms.highest).toBe(2)
  await clock.advance(10_000)
  expect(one.now()).toMatchObject({ kind: 'local', term: 2 })
})
