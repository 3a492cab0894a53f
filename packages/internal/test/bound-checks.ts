import assert from 'node:assert/strict'
import type * as Module from '../src/bound.ts'

/** A clock that moves only when the test moves it. */
function clockOf() {
  const timers = new Set<{ readonly atMs: number; readonly callback: () => void }>()
  let nowMs = 0
  return {
    timers,
    monotonicMs: () => nowMs,
    setTimer(delayMs: number, callback: () => void) {
      const timer = { atMs: nowMs + delayMs, callback }
      timers.add(timer)
      return { cancel: () => void timers.delete(timer) }
    },
    advance(ms: number) {
      nowMs += ms
      for (const timer of timers) {
        if (timer.atMs > nowMs) continue
        timers.delete(timer)
        timer.callback()
      }
    },
  }
}

const never = new Promise<never>(() => {})
const late = (ms: number) => new Error(`late after ${ms} ms`)

/**
 * The guarantees that callers rely on. Each check gets the module as an argument, so that it can also run on mutants.
 */
export const boundChecks: { readonly [name: string]: (module: typeof Module) => Promise<void> } = {
  async 'a call that ignores its signal ends at its deadline, not earlier'({ callWithin }) {
    const clock = clockOf()
    let isOver = false
    let given: AbortSignal | undefined
    const call = callWithin(undefined, { clock, timeoutMs: 1_000, late }, (signal) => {
      given = signal
      return never
    })
    const ended = call.catch((error: unknown) => {
      isOver = true
      return error
    })
    clock.advance(999)
    await turn()
    assert.equal(isOver, false)
    assert.equal(given?.aborted, false)
    clock.advance(1)
    await turn()
    assert.equal(isOver, true)
    assert.equal(String(await ended), 'Error: late after 1000 ms')
    assert.equal(given?.aborted, true)
  },
  async 'a call that ignores its signal ends when the caller aborts'({ callWithin }) {
    const clock = clockOf()
    const caller = new AbortController()
    let outcome: unknown = 'pending'
    void callWithin(caller.signal, { clock, timeoutMs: 1_000, late }, () => never).catch((error) => (outcome = error))
    caller.abort('enough')
    await turn()
    assert.equal(outcome, 'enough')
  },
  async 'a call is not made for a caller that has already aborted'({ callWithin }) {
    let calls = 0
    const call = () => callWithin(AbortSignal.abort(new Error('gone')), undefined, async () => (calls += 1))
    await assert.rejects(call, /gone/)
    assert.equal(calls, 0)
  },
  async 'a settled call leaves neither a timer nor a listener behind'({ callWithin, within }) {
    const clock = clockOf()
    const caller = new AbortController()
    const listeners = new Set<unknown>()
    const { signal } = caller
    signal.addEventListener = (_: string, listener: unknown) => void listeners.add(listener)
    signal.removeEventListener = (_: string, listener: unknown) => void listeners.delete(listener)
    const deadline = { clock, timeoutMs: 1_000, late }
    assert.equal(await callWithin(signal, deadline, async () => 'value'), 'value')
    await assert.rejects(
      callWithin(signal, deadline, () => Promise.reject(new Error('refused'))),
      /refused/,
    )
    assert.equal(await within(signal, deadline, Promise.resolve('value')), 'value')
    assert.deepEqual([clock.timers.size, listeners.size], [0, 0])
  },
  async 'leftMs is the timeout minus the time since the start of the call'({ Bound }) {
    const clock = clockOf()
    clock.advance(5_000)
    const bound = new Bound(undefined, { clock, timeoutMs: 1_000, late })
    clock.advance(300)
    assert.equal(bound.leftMs, 700)
    bound.forget()
  },
  async 'a new deadline replaces the previous one and counts from the moment it was set'({ Bound }) {
    const clock = clockOf()
    const bound = new Bound(undefined, { clock, timeoutMs: 1_000, late })
    clock.advance(900)
    bound.giveUpAfter({ clock, timeoutMs: 500, late })
    clock.advance(499)
    assert.equal(bound.ended, false)
    bound.waitOn()
    clock.advance(10_000)
    assert.equal(bound.ended, false)
    assert.equal(bound.leftMs, undefined)
  },
  async 'a call that is ended twice rejects with the first reason'({ Bound }) {
    const bound = new Bound(undefined)
    bound.end(new Error('first'))
    bound.end(new Error('second'))
    await assert.rejects(bound.race(never), /first/)
  },
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
