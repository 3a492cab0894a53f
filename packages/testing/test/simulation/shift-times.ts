import type { FieldVisitor } from '../../../tenure/src/engine/election-fields.ts'

const same = <T>(value: T) => value

/** Maps every time of a state to a later moment. No time is rounded, and no name is dropped. */
export function later(passedMs: number, heldPassedMs: number): FieldVisitor {
  const fields: FieldVisitor = {
    due: (ms) => ms - passedMs,
    heldDue: (ms) => ms - heldPassedMs,
    moment: (ms) => ms - passedMs,
    heldMoment: (ms) => ms - heldPassedMs,
    since: (ms) => ms - passedMs,
    term: same,
    attempt: same,
    writeId: same,
    version: same,
    sight: same,
    call: same,
    value: same,
    maybe: (value, of) => (value === undefined ? undefined : of(fields, value)),
    each: (values, of) => values.map((value) => of(fields, value)),
  }
  return fields
}
