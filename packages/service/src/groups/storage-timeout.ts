import { Bound } from '@tenure/internal/bound'
import type { Clock } from 'tenure'
import { ServiceError } from '../common/errors.ts'

const timeoutMs = 5_000

/** Limits how long callers wait for the storage. The work that they wait for continues. */
export class StorageTimeout {
  readonly #clock: Clock
  readonly #waits = new Set<Bound>()
  #over: ServiceError | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Rejects if the work takes too long. The outcome of the work is then unknown. */
  for<T>(work: Promise<T>): Promise<T> {
    const bound = new Bound(undefined, { clock: this.#clock, timeoutMs: timeoutMs, late })
    this.#waits.add(bound)
    if (this.#over) bound.end(this.#over)
    const settle = () => {
      bound.forget()
      this.#waits.delete(bound)
    }
    // The caller gets the raced promise itself. A promise that also waited for the cleanup would settle a few turns
    // later.
    const answer = bound.race(work)
    answer.then(settle, settle)
    return answer
  }

  /** Rejects all waits, now and from now on, with this reason. */
  end(reason: ServiceError): void {
    this.#over ??= reason
    for (const wait of this.#waits) wait.end(this.#over)
  }
}

function late(): ServiceError {
  const message = `The storage has not answered for ${timeoutMs} ms. The outcome of this request is unknown.`
  return new ServiceError('BACKEND_UNAVAILABLE', message)
}
