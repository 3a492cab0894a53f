import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { Bound } from '../../src/clients/http/bound.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

test("race releases settled values even if the bound lasts for years, as a watch's does", async () => {
  const bound = new Bound(new AbortController().signal)
  const refs: WeakRef<object>[] = []
  for (const settled of [Promise.resolve({}), Promise.reject(new Error('lost'))]) {
    refs.push(new WeakRef(await bound.race(settled).catch((error: Error) => error)))
  }
  await turn()
  collect()
  // The loop's variables may still hold the last one.
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
