/**
 * A candidate with the timing of client-go: it reads the resource every retry period, and sends a heartbeat if the
 * lease seems to be free or to belong to this candidate.
 */
import type { Collect } from './moves.ts'
import {
  beliefEndsAtMs,
  believes,
  clusterName,
  downCandidate,
  identityOf,
  signal,
  tickMs,
  withAt,
  type Candidate,
  type Scene,
  type Setup,
} from './scene.ts'

export function nameOf(who: number, { candidates }: Setup): string {
  return `${clusterName(candidates[who] ?? 0)}'s ${identityOf(who)}`
}

export function candidateMoves(scene: Scene, who: number, setup: Setup, { add, fault, isBusy }: Collect): void {
  const candidate = scene.candidates[who]
  if (!candidate) return
  const cluster = setup.candidates[who] ?? 0
  const name = nameOf(who, setup)
  const put = (after: Candidate, of = scene): Scene => ({ ...of, candidates: withAt(of.candidates, who, after) })
  if (candidate.life !== 'running') return
  const { waits, term } = candidate
  if (waits) {
    if (waits.endsAtMs <= 0) add(`${name} no longer waits`, 'local', () => put(notConfirmed(candidate, setup)))
    else if (hasNews(scene, who, waits, setup)) {
      add(`${name} reads the status`, 'global', () => reads(scene, who, setup))
    }
  } else if (term > 0 && !believes(candidate, setup)) {
    add(`${name} no longer leads`, 'local', () => put({ ...candidate, term: 0, nextAtMs: setup.retryTicks * tickMs }))
  } else if (candidate.nextAtMs <= 0) {
    add(`${name} looks`, 'local', () => tries(scene, who, setup))
  }
  if (isBusy()) fault('stall', `${name} stalls`, () => put({ ...candidate, life: 'stalled' }))
  fault('crash', `${name} crashes`, () => put(downCandidate))
  if (!believes(candidate, setup)) return
  fault('stop', `${name} stops`, () => put(downCandidate, signal(scene, cluster, '', setup)))
  fault('replaced', `${name} is replaced by another process, in a new resource`, () => {
    const ghosts = [...scene.ghosts, { term, endsAtMs: beliefEndsAtMs(candidate, setup) }]
    return put(downCandidate, {
      ...scene,
      ghosts,
      resources: withAt(scene.resources, cluster, undefined),
      believed: { ...scene.believed, who: -1 },
    })
  })
}

type Waits = NonNullable<Candidate['waits']>

function hasNews({ resources }: Scene, who: number, { uid, generation }: Waits, setup: Setup): boolean {
  const found = resources[setup.candidates[who] ?? 0]
  if (found?.uid !== uid || found.generation !== generation) return true
  const isAnswered = found.status.observedGeneration === generation
  return isAnswered && (!setup.waitsOn || found.status.leader === identityOf(who))
}

function notConfirmed(candidate: Candidate, setup: Setup): Candidate {
  const nextAtMs = setup.retryTicks * tickMs
  const endsAtMs = beliefEndsAtMs(candidate, setup)
  return { ...candidate, waits: undefined, nextAtMs: candidate.term > 0 ? Math.min(nextAtMs, endsAtMs) : nextAtMs }
}

/** Reads the resource, and sends a heartbeat if the candidate is allowed to. */
function tries(scene: Scene, who: number, setup: Setup): Scene {
  const cluster = setup.candidates[who] ?? 0
  const found = scene.resources[cluster]
  const candidate = observes(scene.candidates[who] ?? downCandidate, found)
  const { leader = '' } = found?.status ?? {}
  const isFree = leader === '' || leader === identityOf(who)
  if (!isFree && candidate.observedAtMs + setup.leaseTicks * tickMs > 0) {
    return { ...scene, candidates: withAt(scene.candidates, who, notConfirmed(candidate, setup)) }
  }
  const after = signal(scene, cluster, identityOf(who), setup)
  const { uid = '', generation = 0 } = after.resources[cluster] ?? {}
  const longestMs = setup.waitTicks * tickMs
  const endsAtMs = candidate.term > 0 ? Math.min(longestMs, beliefEndsAtMs(candidate, setup)) : longestMs
  const waiting = { ...candidate, waits: { uid, generation, endsAtMs } }
  return { ...after, candidates: withAt(after.candidates, who, waiting) }
}

/** Reads the outcome of the heartbeat. */
function reads(scene: Scene, who: number, setup: Setup): Scene {
  const cluster = setup.candidates[who] ?? 0
  const found = scene.resources[cluster]
  const before = scene.candidates[who] ?? downCandidate
  const isAnswered = found?.uid === before.waits?.uid && found?.generation === before.waits?.generation
  const candidate = isAnswered ? observes(before, found) : before
  const { leader, term = 0 } = found?.status ?? {}
  if (!isAnswered || leader !== identityOf(who)) {
    return { ...scene, candidates: withAt(scene.candidates, who, notConfirmed(candidate, setup)) }
  }
  const led = { ...candidate, waits: undefined, term, confirmedAtMs: 0, nextAtMs: setup.retryTicks * tickMs }
  const believed = term >= scene.believed.term ? { term, who } : scene.believed
  return { ...scene, candidates: withAt(scene.candidates, who, led), believed }
}

/** Records the leader that the candidate observes, and the time of the first observation. */
function observes(candidate: Candidate, found: Scene['resources'][number]): Candidate {
  const { leader: observed = '', record } = found?.status ?? {}
  const observedVersion = record?.version ?? ''
  if (observed === candidate.observed && observedVersion === candidate.observedVersion) return candidate
  return { ...candidate, observed, observedVersion, observedAtMs: 0 }
}
