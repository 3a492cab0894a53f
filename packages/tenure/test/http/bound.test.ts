import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { Bound } from '../../src/http/bound.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

test('what was waited for is forgotten, however long the bound lasts: a watch has one for years', async () => {
  const bound = new Bound(new AbortController().signal)
  const refs: WeakRef<object>[] = []
  for (const settled of [Promise.resolve({}), Promise.reject(new Error('lost'))]) {
    refs.push(new WeakRef(await bound.race(settled).catch((error: Error) => error)))
  }
  await turn()
  collect()
  // The loop's variables may hold the last one.
  expect(refs[0]?.deref()).toBeUndefined()
  expect(bound.ended).toBe(false)
})

test('a wait ends with its bound, once', async () => {
  const bound = new Bound(new AbortController().signal)
  const hanging = bound.race(new Promise(() => {}))
  bound.end(new Error('late'))
  await expect(hanging).rejects.toThrow('late')
  await expect(bound.race(new Promise(() => {}))).rejects.toThrow('late')
})
