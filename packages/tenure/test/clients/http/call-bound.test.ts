import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { Bound } from '@tenure/internal/bound'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

test('race keeps no reference to settled values, even if its bound lasts for years', async () => {
  const bound = new Bound(new AbortController().signal)
  const refs: WeakRef<object>[] = []
  for (const settled of [Promise.resolve({}), Promise.reject(new Error('lost'))]) {
    refs.push(new WeakRef(await bound.race(settled).catch((error: Error) => error)))
  }
  await turn()
  collect()
  // Checks only the first value, because the loop's variables may still reference the last one.
  expect(refs[0]?.deref()).toBeUndefined()
  expect(bound.ended).toBe(false)
})

test('race rejects when its bound ends', async () => {
  const bound = new Bound(new AbortController().signal)
  const hanging = bound.race(new Promise(() => {}))
  bound.end(new Error('late'))
  await expect(hanging).rejects.toThrow('late')
  await expect(bound.race(new Promise(() => {}))).rejects.toThrow('late')
})
