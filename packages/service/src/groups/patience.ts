import type { Clock } from 'tenure'
import { ServiceError } from '../errors.ts'

const patienceMs = 5_000

/** How long callers wait for what may take long, or never end. What they wait for goes on. */
export class Patience {
  readonly #clock: Clock
  readonly #waits = new Set<(reason: Error) => void>()
  #over: ServiceError | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A storage that answers neither way for long: the caller hears that the outcome is not known. */
  for<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.setTimer(patienceMs, () => {
        const message = `The storage has not answered for ${patienceMs} ms. Whether it was done is not known.`
        fail(new ServiceError('BACKEND_UNAVAILABLE', message))
      })
      const settle = () => {
        timer.cancel()
        this.#waits.delete(fail)
      }
      const fail = (reason: Error) => {
        settle()
        reject(reason)
      }
      this.#waits.add(fail)
      work.then((value) => {
        settle()
        resolve(value)
      }, fail)
      if (this.#over) fail(this.#over)
    })
  }

  /** Nobody waits any more: all of them hear this. */
  end(reason: ServiceError): void {
    this.#over ??= reason
    for (const fail of this.#waits) fail(this.#over)
  }
}
