// Tenure with a guard process, which releases the lease of a crashed leader.
import { takePartWith } from './tenure.js'

/** @type {import('./take-turns.js').TakePart} */
export function takePart(part) {
  return takePartWith(part, { releaseOnCrash: true })
}
