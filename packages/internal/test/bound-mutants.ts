import type { Mutation } from '../../../test/mutants/mutant.ts'

/** A mutant of a call's deadline, and the check that must detect it. */
export interface BoundMutant extends Mutation {
  readonly caughtBy: string
}

const bound = { package: 'internal', file: 'bound.ts' } as const

export const boundMutants: readonly BoundMutant[] = [
  {
    ...bound,
    name: 'wait for a call that ignores its signal',
    find: 'return bound.race(call(ending.signal, bound))',
    replace: 'return call(ending.signal, bound)',
    caughtBy: 'a call that ignores its signal ends at its deadline, not earlier',
  },
  {
    ...bound,
    name: 'do not abort the signal of a call at its deadline',
    find: '    bound.onEnd((reason) => ending.abort(reason))\n',
    replace: '',
    caughtBy: 'a call that ignores its signal ends at its deadline, not earlier',
  },
  {
    ...bound,
    name: 'ignore that the caller aborts',
    find: "    else signal?.addEventListener('abort', this.#onAbort, { once: true })\n",
    replace: '',
    caughtBy: 'a call that ignores its signal ends when the caller aborts',
  },
  {
    ...bound,
    name: 'make a call although its caller has already aborted',
    find: '  signal?.throwIfAborted()\n',
    replace: '',
    caughtBy: 'a call is not made for a caller that has already aborted',
  },
  {
    ...bound,
    name: 'leave the timer of a settled call running',
    find: "    this.#signal?.removeEventListener('abort', this.#onAbort)\n    this.waitOn()\n",
    replace: "    this.#signal?.removeEventListener('abort', this.#onAbort)\n",
    caughtBy: 'a settled call leaves neither a timer nor a listener behind',
  },
  {
    ...bound,
    name: 'leave the listener of a settled call behind',
    find: "    this.#signal?.removeEventListener('abort', this.#onAbort)\n",
    replace: '',
    caughtBy: 'a settled call leaves neither a timer nor a listener behind',
  },
  {
    ...bound,
    name: 'keep the timer of the previous deadline when a new one is set',
    find: '    this.waitOn()\n    const { clock,',
    replace: '    const { clock,',
    caughtBy: 'a new deadline replaces the previous one and counts from the moment it was set',
  },
]
