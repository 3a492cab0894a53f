import { deepEqual, equal, ok, rejects, throws } from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import type { ElectorOptions, Leadership } from '../../../src/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { stallable } from '../../stallable-clock.ts'
import { blockableClock } from './blockable-clock.ts'
import type { Checks, Library } from './checks.ts'

/** The time after which a leader's lease ends when it is not renewed. */
const deadlineMs = 10_000

/** Stalls the process of a leader until its lease has expired. None of its timers has fired when this resolves. */
async function overdue(
  { Elector, memoryStore }: Library,
  more: Partial<ElectorOptions> = {},
  before: (leadership: Leadership) => void = () => undefined,
) {
  const real = fakeClock()
  const clock = stallable(real)
  const elector = new Elector({ store: memoryStore({ clock: real }), election: 'e', clock, ...more })
  elector.start()
  const leadership = await elector.waitForLeadership()
  before(leadership)
  clock.stall()
  await real.advance(deadlineMs)
  return {
    elector,
    leadership,
    async end() {
      clock.resume()
      await Promise.all([elector.stop(), real.advance(60_000)])
      equal(real.timers, 0)
    },
  }
}

const isLoss = { name: 'LeadershipLostError', code: 'LEADERSHIP_LOST', reason: 'expired' }
const isAbort = (error: Error) => error.name === 'AbortError' || error.name === 'LeadershipLostError'

/** Every way to query leadership. Each returns true if leadership has ended. */
const questions: Readonly<Record<string, (leadership: Leadership) => boolean>> = {
  'signal.aborted': ({ signal }) => signal.aborted,
  'signal.reason': ({ signal }) => signal.reason !== undefined,
  'isLeader()': (leadership) => !leadership.isLeader(),
  'remainingMs()': (leadership) => leadership.remainingMs() === 0,
}

function aborts({ signal }: Leadership): { count: number } {
  const heard = { count: 0 }
  signal.addEventListener('abort', () => (heard.count += 1))
  return heard
}

/** Checks of a leadership's signal when the lease ended before a timer could fire. */
export const signals: Checks = {
  ...Object.fromEntries(
    Object.entries(questions).map(([name, isOver]) => [
      `after a stall ${name} reports the end, and abort listeners run at once`,
      async (library: Library) => {
        let heard = { count: 0 }
        const s = await overdue(library, {}, (leadership) => (heard = aborts(leadership)))
        equal(heard.count, 0)
        ok(isOver(s.leadership))
        equal(heard.count, 1)
        equal(s.leadership.signal.aborted, true)
        throws(() => s.leadership.signal.throwIfAborted(), isLoss)
        await s.end()
        equal(heard.count, 1)
      },
    ]),
  ),

  async "after a stall throwIfAborted() and throwIfLost() throw the signal's reason"(library) {
    for (const ask of [
      ({ signal }: Leadership) => signal.throwIfAborted(),
      (leadership: Leadership) => leadership.throwIfLost(),
    ]) {
      const s = await overdue(library)
      throws(() => ask(s.leadership), isLoss)
      throws(
        () => s.leadership.throwIfLost(),
        (error) => error === s.leadership.signal.reason,
      )
      await s.end()
    }
  },

  async 'after a stall isLeader() of the elector aborts the signal'(library) {
    const s = await overdue(library)
    // The plain flag, bypassing the getter that reads the clock.
    const flag = () => Reflect.get(AbortSignal.prototype, 'aborted', s.leadership.signal)
    equal(flag(), false)
    equal(s.elector.isLeader(), false)
    equal(flag(), true)
    await s.end()
  },

  async 'work that an abort listener adds is awaited, even if a query ended the leadership'(library) {
    let settle = (): void => undefined
    const s = await overdue(library, {}, (leadership) => {
      leadership.signal.addEventListener('abort', () => {
        void s.elector.stop()
        leadership.waitUntil(new Promise<void>((resolve) => (settle = resolve)))
      })
    })
    equal(s.leadership.isLeader(), false)
    equal(s.elector.explain().pendingWork, 1)
    equal(s.elector.explain().phase, 'ending')
    settle()
    await s.end()
  },

  async 'a query from an observer aborts the signal before it returns, and the loss is reported afterwards'({
    Elector,
    memoryStore,
  }) {
    const clock = blockableClock()
    const events: string[] = []
    const led: { leadership?: Leadership } = {}
    const elector = new Elector({
      store: memoryStore({ clock }),
      election: 'e',
      clock,
      observer: {
        onEvent({ type }) {
          events.push(type)
          if (type !== 'renewed' || !led.leadership) return
          // Block in the middle of the step that handles the response to a renewal.
          clock.block(deadlineMs)
          events.push(`aborted: ${led.leadership.signal.aborted}`)
        },
      },
    })
    elector.start({ until: 'lost' })
    const leadership = await elector.waitForLeadership()
    led.leadership = leadership
    leadership.signal.addEventListener('abort', () => events.push('abort'))
    clock.block(deadlineMs / 2)
    await once(leadership.signal, 'abort')
    await elector.stop()
    deepEqual(events, ['new-leader', 'elected', 'renewed', 'abort', 'aborted: true', 'lost'])
  },

  async 'operations that start after the lease has expired reject at once, even if no timer has aborted their signal'(
    library,
  ) {
    const starts: ((signal: AbortSignal) => Promise<unknown>)[] = [
      (signal) => sleep(60_000, undefined, { signal }),
      (signal) => once(new EventEmitter(), 'never', { signal }),
      (signal) => fetch('http://127.0.0.1:1/', { signal }),
      async (signal) => AbortSignal.any([signal, AbortSignal.timeout(60_000)]).throwIfAborted(),
    ]
    for (const start of starts) {
      const s = await overdue(library)
      await rejects(start(s.leadership.signal), isAbort)
      await s.end()
    }
  },

  async 'operations that wait on the signal of an expired lease end at the first query of leadership'(library) {
    const waits: ((signal: AbortSignal) => Promise<unknown>)[] = [
      (signal) => sleep(60_000, undefined, { signal }),
      (signal) => once(new EventEmitter(), 'never', { signal }),
      (signal) => sleep(60_000, undefined, { signal: AbortSignal.any([signal]) }),
    ]
    for (const wait of waits) {
      let waiting: Promise<unknown> = Promise.resolve()
      const s = await overdue(library, {}, ({ signal }) => {
        waiting = wait(signal)
        waiting.catch(() => undefined)
      })
      equal(s.leadership.isLeader(), false)
      await rejects(waiting, isAbort)
      await s.end()
    }
  },

  async "AbortSignal.any() of a leadership's signal aborts when that signal does, and not before"(library) {
    let either: AbortSignal | undefined
    const s = await overdue(library, {}, ({ signal }) => (either = AbortSignal.any([signal])))
    equal(either?.aborted, false)
    equal(s.leadership.signal.aborted, true)
    equal(either?.aborted, true)
    equal(either?.reason, s.leadership.signal.reason)
    await s.end()
  },

  async "a leadership's signal is a regular AbortSignal"(library) {
    const s = await overdue(library)
    const { signal } = s.leadership
    ok(signal instanceof AbortSignal)
    equal(Object.keys(signal).length, 0)
    equal(inspect(signal), 'AbortSignal { aborted: true }')
    await s.end()
  },
}
