/** Computes the bands and marks of a timeline. */
import type { Term, Terms } from './terms.ts'

/** A period in Unix time, on the server's clock. */
export interface TimeRange {
  readonly fromMs: number
  readonly toMs: number
}

/** A term as it is drawn. Position and width are fractions of the timeline. */
export interface Band {
  readonly term: Term
  readonly x: number
  readonly width: number
  /** Whether the term continues at the right edge. */
  readonly goesOn: boolean
  /** Whether the term ends within the range. */
  readonly endsHere: boolean
}

/** The smallest width of a band, so that a short term stays visible. */
const thinnest = 1 / 400

/**
 * Returns the bands. A term that has not ended is drawn up to `knownMs`, because it is unknown whether it continued
 * after that.
 */
export function bandsIn(terms: Terms, { fromMs, toMs }: TimeRange, knownMs = toMs): Band[] {
  const lengthMs = toMs - fromMs
  return terms.flatMap((term, index) => {
    const startMs = term.fromMs ?? terms[index - 1]?.toMs ?? fromMs
    const goesOn = term.end === undefined
    const endMs = goesOn ? Math.min(toMs, Math.max(knownMs, startMs)) : (term.toMs ?? toMs)
    if (endMs < fromMs || startMs > toMs) return []
    const x = Math.min(Math.max(0, (startMs - fromMs) / lengthMs), 1 - thinnest)
    const end = Math.min(1, (endMs - fromMs) / lengthMs)
    return [{ term, x, width: Math.max(thinnest, end - x), goesOn, endsHere: !goesOn && endMs <= toMs }]
  })
}

const steps = [60_000, 300_000, 900_000, 3_600_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000]

/** Returns a few round times to mark, as fractions of the timeline. `zoneMs` is how far local time is ahead of UTC. */
export function marksIn(
  { fromMs, toMs }: TimeRange,
  zoneMs: number,
  most = 6,
): { readonly atMs: number; readonly x: number }[] {
  const lengthMs = toMs - fromMs
  const stepMs = steps.find((step) => lengthMs / step <= most) ?? 86_400_000
  const marks = []
  for (let atMs = Math.ceil((fromMs + zoneMs) / stepMs) * stepMs - zoneMs; atMs <= toMs; atMs += stepMs) {
    marks.push({ atMs, x: (atMs - fromMs) / lengthMs })
  }
  return marks
}
