/** Formats names, durations, and changes as readable text. */
import type { Term } from './terms.ts'

// Control characters, direction marks, zero-width characters, line separators, private use and unassigned code points.
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u115f\u1160\u3164\uffa0]|\u034f/gu
/** Stacked combining marks, which would reach into the lines above and below. */
const piledUp = /(\p{M}{2})\p{M}+/gu

/**
 * Makes untrusted text safe to show. Invisible characters are written out, so that two different names look different.
 */
export function visible(text: string): string {
  return text
    .replaceAll(piledUp, '$1')
    .replaceAll(invisible, (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`)
}

const units = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const

/** Formats a duration in at most two units: 1 h 5 min. */
export function duration(ms: number): string {
  if (ms < 950) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`
  let seconds = Math.round(ms / 1_000)
  const parts: string[] = []
  for (const [name, size] of units) {
    const count = Math.floor(seconds / size)
    seconds -= count * size
    if (count > 0) parts.push(`${count} ${name}`)
    else if (parts.length > 0) break
    if (parts.length === 2) break
  }
  return parts.join(' ')
}

/** Formats how long ago something happened. */
export function ago(ms: number): string {
  if (ms < 1_500) return 'just now'
  return ms < 9_950 ? `${Math.round(ms / 1_000)} s ago` : `${duration(ms)} ago`
}

/** Formats the time left on a lease with a stable width. */
export function leftText(ms: number): string {
  return ms < 10_000 ? `${(Math.floor(ms / 100) / 10).toFixed(1)} s` : duration(Math.floor(ms / 1_000) * 1_000)
}

/** How a term ended, as the predicate of a sentence about the term. */
export const endings = {
  resigned: 'was handed over: the leader released its lease',
  expired: 'expired: the lease was not renewed in time',
  deleted: 'was ended by force: the election was deleted',
  unseen: 'is over, but how it ended is unknown',
} as const

/** Describes a term in a sentence. */
export function termText(
  { term, node, fromMs, toMs, end }: Term,
  nowMs: number,
  clock: (ms: number) => string,
): string {
  const since = fromMs === undefined ? '' : ` from ${clock(fromMs)}`
  if (end === undefined) {
    const led = fromMs === undefined ? '' : `, for ${duration(Math.max(0, nowMs - fromMs))} so far`
    return `${visible(node)} leads in term ${term}${since}${led}.`
  }
  const until = toMs === undefined ? '' : ` to ${clock(toMs)}`
  const led = fromMs === undefined || toMs === undefined ? '' : ` (${duration(Math.max(0, toMs - fromMs))})`
  return `${visible(node)} led in term ${term}${since}${until}${led}. The term ${endings[end]}.`
}

/** Describes the state of an election in one sentence, for screen readers. */
export function standingText(leader: { readonly node: string; readonly term: number } | undefined): string {
  return leader ? `${visible(leader.node)} leads in term ${leader.term}` : 'nobody leads'
}
