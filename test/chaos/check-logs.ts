/** Checks the logs of a fleet. Times are nanoseconds on the machine's monotonic clock. */
import type { GuardRequest } from './guard.ts'

/** A line of a process's log. Lines are in the order of events in that process. */
export type Entry =
  | { readonly kind: 'elected'; readonly term: number; readonly at: number }
  /** At some moment from `from` to `to`, isLeader() was true in this process or its signal had not aborted. */
  | {
      readonly kind: 'belief'
      readonly term: number
      readonly from: number
      readonly to: number
      readonly by?: 'signal'
    }
  | {
      readonly kind: 'lost'
      readonly term: number
      readonly reason: string
      readonly at: number
      readonly clean: boolean
    }
  | { readonly kind: 'wrote'; readonly term: number; readonly value: number; readonly at: number }
  | { readonly kind: 'error'; readonly code: string; readonly at: number }
  | { readonly kind: 'stopped'; readonly at: number }

/** One process from its start to its end. */
export interface ProcessLog {
  readonly identity: string
  readonly pid: number
  /** How the process ended. Any text other than that of a kill or a requested stop is an error. */
  readonly end: 'killed' | 'stopped' | (string & {})
  readonly entries: readonly Entry[]
}

/** The records of the counter's guard. */
export interface GuardLog {
  readonly value: number
  readonly accepted: readonly GuardRequest[]
  readonly refused: readonly GuardRequest[]
}

/** A period during which a process was paused. */
export interface Pause {
  readonly pid: number
  readonly from: number
  readonly to: number
  /** The term that the process led when the pause began, if known. */
  readonly term?: number | undefined
}

/** The error codes that faults may cause by default. Pauses and hanging calls can cause only timeouts. */
const hung = ['TIMEOUT']

/** Returns all violations. */
export function findViolations(lives: readonly ProcessLog[], guard: GuardLog, expectedErrors = hung): string[] {
  return [
    ...lives.flatMap(unexpectedEnds),
    ...lives.flatMap((life) => unexpectedErrors(life, expectedErrors)),
    ...lives.flatMap(brokenPairs),
    ...sharedTerms(lives),
    ...overlaps(lives),
    ...lostUpdates(lives, guard),
  ]
}

function unexpectedEnds({ identity, pid, end }: ProcessLog): string[] {
  return end === 'killed' || end === 'stopped' ? [] : [`${identity} (${pid}) ended: ${end}`]
}

function unexpectedErrors({ identity, entries }: ProcessLog, expected: readonly string[]): string[] {
  const codes = new Set(entries.flatMap((entry) => (entry.kind === 'error' ? [entry.code] : [])))
  return [...codes].filter((code) => !expected.includes(code)).map((code) => `${identity} reported ${code}`)
}

/** Elected and lost events come in pairs, terms rise, and no belief exists outside a pair. */
function brokenPairs({ identity, end, entries }: ProcessLog): string[] {
  const found: string[] = []
  let open: number | undefined
  // client-go starts with term 0.
  let highest = -1
  for (const entry of entries) {
    if (entry.kind === 'elected') {
      if (open !== undefined) found.push(`${identity} was elected to term ${entry.term} before term ${open} was lost`)
      if (entry.term <= highest) found.push(`${identity} was elected to term ${entry.term} after term ${highest}`)
      open = highest = entry.term
    }
    if (entry.kind === 'belief' && entry.term !== open) {
      found.push(
        `${identity} believed in term ${entry.term} while its open term was ${open ?? 'none'}, at ${show(entry.from)}`,
      )
    }
    if (entry.kind === 'lost') {
      if (entry.term !== open)
        found.push(`${identity} lost term ${entry.term} while its open term was ${open ?? 'none'}`)
      if (!entry.clean) found.push(`${identity} reported the loss of term ${entry.term} before the term had ended`)
      open = undefined
    }
    if (entry.kind === 'stopped' && open !== undefined) found.push(`${identity} stopped without losing term ${open}`)
  }
  const hasStopped = entries.at(-1)?.kind === 'stopped' || entries.some(({ kind }) => kind === 'stopped')
  if (end === 'stopped' && !hasStopped) found.push(`${identity} never reported that it had stopped`)
  return found
}

function sharedTerms(lives: readonly ProcessLog[]): string[] {
  const holders = new Map<number, string[]>()
  for (const { identity, pid, entries } of lives) {
    for (const entry of entries) {
      if (entry.kind !== 'elected') continue
      holders.set(entry.term, [...(holders.get(entry.term) ?? []), `${identity} (${pid})`])
    }
  }
  const shared = [...holders].filter(([, names]) => names.length > 1)
  return shared.map(([term, names]) => `term ${term} was held by ${names.join(' and ')}`)
}

/** The part of a belief that is certain, regardless of pauses of the process. */
export interface Belief {
  readonly term: number
  readonly life: ProcessLog
  /** The belief had begun by this time. */
  readonly begunBy: number
  /** The belief had not ended before this time. */
  readonly lastAt: number
}

/** Returns the beliefs, sorted by term. */
export function beliefsOf(lives: readonly ProcessLog[]): Belief[] {
  const beliefs = new Map<string, Belief>()
  for (const life of lives) {
    for (const entry of life.entries) {
      if (entry.kind !== 'belief') continue
      const key = `${entry.term} ${life.pid}`
      const known = beliefs.get(key)
      beliefs.set(key, {
        term: entry.term,
        life,
        begunBy: Math.min(entry.to, known?.begunBy ?? Infinity),
        lastAt: Math.max(entry.from, known?.lastAt ?? -Infinity),
      })
    }
  }
  return [...beliefs.values()].toSorted((a, b) => a.term - b.term)
}

/**
 * Once a process has believed in a term, no process may believe in a lower one. Belief in a term has no gaps, so this
 * is equivalent to "beliefs do not overlap and follow the order of their terms", and it needs no tolerance.
 */
function overlaps(lives: readonly ProcessLog[]): string[] {
  const found: string[] = []
  let before: Belief | undefined
  for (const belief of beliefsOf(lives)) {
    if (before && before.term < belief.term && before.lastAt > belief.begunBy) {
      const [former, next] = [before, belief].map(({ life, term }) => `${life.identity} in term ${term}`)
      const forNs = before.lastAt - belief.begunBy
      const what = `${former} still led ${show(forNs)} after ${next} had started, at ${show(belief.begunBy)}`
      found.push([what, ...timeline(before, belief.begunBy), ...timeline(belief, belief.begunBy)].join('\n'))
    }
    if (!before || belief.lastAt > before.lastAt) before = belief
  }
  return found
}

/** Returns the log lines of a process around a moment, without repetitions. Such a run cannot be reproduced. */
function timeline({ life, term, lastAt }: Belief, aroundNs: number): string[] {
  const near = life.entries.filter((entry) => {
    const at = atOf(entry)
    return at > aroundNs - 4e9 && at < Math.max(aroundNs, lastAt) + 2e9
  })
  const isRepeated = (entry: Entry, index: number) =>
    entry.kind === 'belief' && [index - 1, index + 1].every((other) => near[other]?.kind === 'belief') && !entry.by
  return near
    .filter((entry, index) => !isRepeated(entry, index))
    .map(
      (entry) =>
        `  ${life.identity} (${life.end}, term ${term}): ${show(atOf(entry) - aroundNs)} ${JSON.stringify(entry)}`,
    )
}

function atOf(entry: Entry): number {
  return entry.kind === 'belief' ? entry.from : entry.at
}

/** Each accepted write must build on the previous one, and a write that was confirmed to a leader must exist. */
function lostUpdates(lives: readonly ProcessLog[], { value, accepted }: GuardLog): string[] {
  const found = accepted.flatMap((write, index) => {
    const before = accepted[index - 1]
    const lost = write.value === index + 1 ? [] : [`write ${index + 1} (term ${write.term}) set ${write.value}`]
    const late = before && before.term > write.term ? [`term ${write.term} wrote after term ${before.term}`] : []
    return [...lost, ...late]
  })
  if (value !== accepted.length) found.push(`${accepted.length} writes were accepted, but the counter is at ${value}`)
  const wrote = lives.flatMap(({ entries }) => entries.filter((entry) => entry.kind === 'wrote'))
  for (const write of wrote) {
    if (accepted[write.value - 1]?.term === write.term) continue
    found.push(`term ${write.term} got a confirmation for writing ${write.value}, but the write is missing`)
  }
  return found.slice(0, 20)
}

/** Counts of what happened in a run. A test checks them, so that a run in which nothing happened does not pass. */
export interface Survey {
  readonly terms: number
  readonly byDeath: number
  readonly byRelease: number
  readonly byExpiry: number
  /** The expiries of leaders that were paused for longer than a lease. */
  readonly byPause: number
  readonly fencedWrites: number
  /** The longest time between two beliefs. */
  readonly longestGapMs: number
}

export function survey(
  lives: readonly ProcessLog[],
  guard: GuardLog,
  pauses: readonly Pause[],
  leaseDurationMs: number,
): Survey {
  const beliefs = beliefsOf(lives)
  const handOvers = handOversOf(lives)
  const count = (wanted: HandOver['how']) => handOvers.filter(({ how }) => how === wanted).length
  const byPause = beliefs.slice(0, -1).filter((belief) => {
    const stoodStill = ({ pid, from, to }: Pause) =>
      pid === belief.life.pid &&
      from > belief.begunBy &&
      from < belief.lastAt + 50e6 &&
      to - from > leaseDurationMs * 1e6
    return howItEnded(belief) === 'expiry' && pauses.some(stoodStill)
  })
  return {
    terms: beliefs.length,
    byDeath: count('death'),
    byRelease: count('release'),
    byExpiry: count('expiry'),
    byPause: byPause.length,
    fencedWrites: guard.refused.filter(({ verb }) => verb === 'write').length,
    longestGapMs: Math.max(0, ...handOvers.map(({ gapMs }) => gapMs)),
  }
}

/** A handover from one leader to the next. */
export interface HandOver {
  readonly former: ProcessLog
  readonly next: ProcessLog
  /** How the previous leadership ended. */
  readonly how: 'death' | 'release' | 'expiry'
  /** The time between the two beliefs. */
  readonly gapMs: number
}

/** Returns the handovers in the order of their terms. */
export function handOversOf(lives: readonly ProcessLog[]): HandOver[] {
  const beliefs = beliefsOf(lives)
  return beliefs.slice(1).flatMap((next, index) => {
    const former = beliefs[index]
    if (!former) return []
    return {
      former: former.life,
      next: next.life,
      how: howItEnded(former),
      gapMs: (next.begunBy - former.lastAt) / 1e6,
    }
  })
}

function howItEnded({ life, term }: Belief): HandOver['how'] {
  const lost = life.entries.find((entry) => entry.kind === 'lost' && entry.term === term)
  if (lost?.kind !== 'lost') return 'death'
  return lost.reason === 'released' || lost.reason === 'stopped' ? 'release' : 'expiry'
}

function show(ns: number): string {
  return `${(ns / 1e6).toFixed(3)} ms`
}
