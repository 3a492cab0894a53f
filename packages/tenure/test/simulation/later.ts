import type { Fields } from '../../src/election-fields.ts'

const same = <T>(value: T) => value

/** Everything as it is, but as much later as that: no time is rounded, no name is forgotten. */
export function later(passedMs: number, heldPassedMs: number): Fields {
  const fields: Fields = {
    due: (ms) => ms - passedMs,
    heldDue: (ms) => ms - heldPassedMs,
    moment: (ms) => ms - passedMs,
    heldMoment: (ms) => ms - heldPassedMs,
    term: same,
    attempt: same,
    mark: same,
    version: same,
    sight: same,
    call: same,
    value: same,
    maybe: (value, of) => (value === undefined ? undefined : of(fields, value)),
    each: (values, of) => values.map((value) => of(fields, value)),
  }
  return fields
}
