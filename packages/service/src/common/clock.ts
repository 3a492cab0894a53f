import { systemClock as realClock, uuid } from '@tenure/internal/clock'
import type { Clock } from 'tenure'

/** The real clock. Its random ids are UUIDs because clients see them. */
export const systemClock: Clock = { ...realClock, randomId: uuid }

/** Resolves in the next turn of the event loop, after all callbacks that are due now. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

const sliceMs = 5

/** Divides long work into slices. Once `isOver` is true, `await timeSlice.pause()` lets other callbacks run. */
export class TimeSlice {
  #untilMs = realClock.monotonicMs() + sliceMs

  get isOver(): boolean {
    return realClock.monotonicMs() >= this.#untilMs
  }

  async pause(): Promise<void> {
    await nextTurn()
    this.#untilMs = realClock.monotonicMs() + sliceMs
  }
}
