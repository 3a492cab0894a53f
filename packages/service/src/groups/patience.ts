import type { Clock } from 'tenure'
import { ServiceError } from '../errors.ts'

const patienceMs = 5_000

/** A storage that answers neither way for long: the caller hears that the outcome is not known. The write goes on. */
export function patiently<T>(clock: Clock, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(patienceMs, () => {
      const message = `The data directory has not answered for ${patienceMs} ms. Whether it was done is not known.`
      reject(new ServiceError('BACKEND_UNAVAILABLE', message))
    })
    work.then(
      (value) => {
        timer.cancel()
        resolve(value)
      },
      (error: Error) => {
        timer.cancel()
        reject(error)
      },
    )
  })
}
