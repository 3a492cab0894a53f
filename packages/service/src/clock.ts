import { systemClock as realClock, uuid } from '@tenure/internal/clock'
import type { Clock } from 'tenure'

/** The real clock; what it names is shown to clients as UUIDs. */
export const systemClock: Clock = { ...realClock, randomId: uuid }

/** Lets everything else that waits run first. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

const sliceMs = 5

/** For long work: `await pace.pause()` lets others run whenever this one has run for a while. */
export class Pace {
  #untilMs = realClock.monotonicMs() + sliceMs

  get isOver(): boolean {
    return realClock.monotonicMs() >= this.#untilMs
  }

  async pause(): Promise<void> {
    await nextTurn()
    this.#untilMs = realClock.monotonicMs() + sliceMs
  }
}
