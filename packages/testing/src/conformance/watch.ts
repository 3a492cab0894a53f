import { fail } from 'node:assert/strict'
import type { LeaseRecord } from 'tenure'
import type { Case } from './case.ts'
import { check, granted, same, type ConformanceScene } from './scene.ts'

/** The guarantees of `watch` in a store that has it. A watch may skip states, but it shows the newest one. */
export const watchCases: Case[] = [
  {
    name: 'a watch starts with the current state',
    needs: ['watch'],
    async run(scene) {
      const empty = new Watch(scene)
      same('The first state of the watch', await empty.next(), undefined, 'Nothing was ever written for this election.')
      await empty.end()
      const { record } = await scene.grant()
      const full = new Watch(scene)
      same('The first state of the watch', await full.next(), record, 'A watch starts with the current record.')
      await full.end()
    },
  },
  ...[
    { reader: 'a reader that is already waiting', ahead: true },
    { reader: 'a reader that reads later', ahead: false },
  ].map(({ reader, ahead }): Case => ({
    name: `a watch shows a grant, a renewal and a release to ${reader}`,
    needs: ['watch'],
    async run(scene) {
      const watch = new Watch(scene, { ahead })
      await watch.next()
      const { record } = await scene.grant()
      await watch.until('the grant', (seen) => seen?.version === record.version)
      const renewed = granted('renew', await scene.renew(record), 'The claim names the current grant.')
      await watch.until('the renewal', (seen) => seen?.version === renewed.record.version)
      const freed = granted('release', await scene.release(renewed.record), 'The claim names the current grant.')
      const last = await watch.until('the release', (seen) => seen?.released === true)
      same('The released record', last, freed.record, 'A watch shows records as they are stored.')
      await watch.end()
    },
  })),
  {
    name: 'a watch shows a removal',
    needs: ['watch', 'remove'],
    async run(scene) {
      await scene.grant()
      const watch = new Watch(scene, { ahead: true })
      await watch.next()
      await scene.remove()
      await watch.until('the removal', (seen) => seen === undefined)
      await watch.end()
    },
  },
  {
    name: 'two watches both see a release, and one continues when the other ends',
    needs: ['watch'],
    async run(scene) {
      const { record } = await scene.grant()
      const [one, two, ended] = [new Watch(scene, { ahead: true }), new Watch(scene), new Watch(scene)]
      for (const watch of [one, two, ended]) await watch.next()
      await ended.end()
      await scene.release(record)
      for (const watch of [one, two]) await watch.until('the release', (seen) => seen?.released === true)
      await one.end()
      const next = await scene.grant({ afterTerm: record.term })
      await two.until('the next grant', (seen) => seen?.version === next.record.version)
      await two.end()
    },
  },
  {
    name: 'a watch ends when its signal aborts while it waits',
    needs: ['watch'],
    async run(scene) {
      const watch = new Watch(scene)
      await watch.next()
      const waiting = watch.pull()
      watch.abort()
      const { done } = await scene.within('A watch whose signal aborted', waiting)
      check(done === true, 'The watch continued after its signal aborted.')
    },
  },
  {
    name: 'a watch ends at once when its signal is already aborted',
    needs: ['watch'],
    async run(scene) {
      const watch = new Watch(scene, { signal: AbortSignal.abort() })
      for (let states = 0; states < 3; states++) {
        if ((await scene.within('A watch whose signal was already aborted', watch.pull())).done) return
      }
      fail('The watch continued although its signal was already aborted.')
    },
  },
  {
    name: 'a watch ends when its reader leaves the loop',
    needs: ['watch'],
    async run(scene) {
      const { record } = await scene.grant()
      const watch = new Watch(scene)
      same('The first state of the watch', await watch.next(), record, 'The grant came before the watch.')
      await watch.leave()
      const { done } = await scene.within('A watch after its reader left', watch.pull())
      check(done === true, 'The watch continued after its reader left.')
      granted('renew', await scene.renew(record), 'A watch that has ended must not affect the store.')
    },
  },
]

class Watch {
  readonly #scene: ConformanceScene
  readonly #abort = new AbortController()
  readonly #states: AsyncIterator<LeaseRecord | undefined>
  readonly #ahead: boolean
  #pulled: Promise<IteratorResult<LeaseRecord | undefined, unknown>> | undefined

  /** With `ahead`, the reader is already waiting for the next state whenever something changes. */
  constructor(scene: ConformanceScene, options: { ahead?: boolean; signal?: AbortSignal } = {}) {
    this.#scene = scene
    this.#ahead = options.ahead ?? false
    const states = scene.store.watch?.(scene.election, { signal: options.signal ?? this.#abort.signal })
    if (!states) throw new Error('This case needs `watch`.')
    this.#states = states[Symbol.asyncIterator]()
  }

  pull(): Promise<IteratorResult<LeaseRecord | undefined, unknown>> {
    return this.#states.next()
  }

  async next(what = 'a state'): Promise<LeaseRecord | undefined> {
    const state = this.#pulled ?? this.pull()
    this.#pulled = undefined
    const { done, value } = await this.#scene.within(`Waiting for ${what} from the watch`, state)
    if (done) fail(`The watch ended before it showed ${what}.`)
    if (this.#ahead) {
      this.#pulled = this.pull()
      this.#pulled.catch(() => {})
    }
    return value
  }

  async until(what: string, wanted: (seen: LeaseRecord | undefined) => boolean): Promise<LeaseRecord | undefined> {
    for (;;) {
      const seen = await this.next(what)
      if (wanted(seen)) return seen
    }
  }

  abort(): void {
    this.#abort.abort()
  }

  async leave(): Promise<void> {
    await this.#scene.within('Leaving a watch', Promise.resolve(this.#states.return?.()))
  }

  async end(): Promise<void> {
    this.abort()
    await this.leave()
  }
}
