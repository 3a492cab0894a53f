import type { CallOptions } from 'tenure'
import type { Case } from './case.ts'
import { granted, held, same, type ConformanceScene } from './scene.ts'

/** How a call ends: with an answer, by its signal, or because the store closes. */
export const callsCases: Case[] = [
  {
    name: 'every call settles when its signal is already aborted',
    async run(scene) {
      await settles(scene, scene.call(AbortSignal.abort()), () => {})
    },
  },
  {
    name: 'every call settles when its signal aborts during the call',
    async run(scene) {
      const controller = new AbortController()
      await settles(scene, scene.call(controller.signal), () => controller.abort())
    },
  },
  {
    name: 'an answered call is not undone when its signal aborts later',
    async run(scene) {
      const controller = new AbortController()
      const claim = scene.claim()
      const outcome = await scene.within('acquire', scene.store.acquire(claim, scene.call(controller.signal)))
      const { record } = granted('acquire', outcome, 'The election is free.')
      controller.abort()
      await scene.expectStored(record, 'The call was answered before its signal aborted.')
      granted('renew', await scene.renew(record), 'The call was answered before its signal aborted.')
    },
  },
  {
    name: 'a store can be closed twice',
    async run(scene) {
      await scene.grant()
      for (const what of ['close', 'A second close']) {
        const answer = await scene.within(what, Promise.resolve(scene.store.close?.()))
        same(what, answer, undefined, 'close must resolve to undefined.')
      }
    },
  },
]

/** The contract promises only that each call settles. Whether an aborted call was applied is unknown. */
async function settles(scene: ConformanceScene, options: CallOptions, during: () => void): Promise<void> {
  const { store } = scene
  const { record } = await scene.grant()
  const claim = scene.claim({ election: `${scene.election} too` })
  const calls = {
    read: settled(store.read(scene.election, options)),
    look: settled(store.look?.(scene.election, options)),
    list: settled(store.list?.({}, options)),
    acquire: settled(store.acquire(claim, options)),
    renew: settled(store.renew(held(record), options)),
    release: settled(store.release(held(record), options)),
  }
  during()
  for (const [name, call] of Object.entries(calls)) await scene.within(`${name} with an aborted signal`, call)
}

async function settled(call: Promise<unknown> | undefined): Promise<void> {
  await Promise.allSettled([call])
}
