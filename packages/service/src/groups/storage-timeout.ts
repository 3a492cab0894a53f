import type { Clock } from 'tenure'
import { ServiceError } from '../errors.ts'

const patienceMs = 5_000

/** A limit on how long callers wait for the storage. The work that they wait for continues. */
export class StorageTimeout {
  readonly #clock: Clock
  readonly #waits = new Set<(reason: Error) => void>()
  #over: ServiceError | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Rejects if the work takes too long. The outcome is unknown then. */
  for<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.setTimer(patienceMs, () => {
        const message = `The storage has not answered for ${patienceMs} ms. The outcome of this request is unknown.`
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

  /** Rejects all waits, now and from now on, with this reason. */
  end(reason: ServiceError): void {
    this.#over ??= reason
    for (const fail of this.#waits) fail(this.#over)
  }
}
