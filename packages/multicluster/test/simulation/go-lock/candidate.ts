/** A model of a candidate as go/multiclusterlease/campaign.go implements it, with the timing of client-go. */
import type { Outcome } from '../../../../tenure/src/engine/lease-store.ts'
import { withAt, type Candidate, type Request, type Scene, type Setup, type Waits } from './scene.ts'

const election = 'e'

/** Sends the candidate's next request: a renewal if it has a grant, otherwise an acquire. */
export function sends(scene: Scene, who: number, setup: Setup): Scene {
  const candidate = scene.candidates[who] as Candidate
  const id = `n${scene.names + 1}`
  const names = scene.names + 2
  const { grant, highestTerm } = candidate
  const leaseDurationMs =
    setup.leaseTicks + (setup.mistake === 'take the lease for one duration without the bound' ? 0 : setup.boundTicks)
  const common = { election, holder: holderOf(who, setup), leaseDurationMs, writeId: id }
  if (grant) {
    const claim = { verb: 'renew' as const, of: { ...common, ...grant } }
    return sent(
      { ...scene, names },
      who,
      { ...candidate, waits: { id, verb: 'renew', sentTicks: 0, isFirst: true } },
      { who, id, claim },
    )
  }
  // Another candidate has led since, so this attempt is abandoned.
  const kept = candidate.pending?.afterTerm === highestTerm ? candidate.pending : undefined
  const isFirst = kept === undefined || kept.isReleased === true
  const pending = { id: kept?.id ?? `n${names}`, afterTerm: highestTerm }
  const of = { ...common, attempt: pending.id, afterTerm: pending.afterTerm, metadata: {} }
  const waits: Waits = { id, verb: 'acquire', sentTicks: 0, isFirst }
  return sent({ ...scene, names }, who, { ...candidate, pending, waits }, { who, id, claim: { verb: 'acquire', of } })
}

function sent(scene: Scene, who: number, candidate: Candidate, request: Request): Scene {
  return { ...scene, candidates: withAt(scene.candidates, who, candidate), requests: [...scene.requests, request] }
}

/** client-go stops: the belief ends, then the lease is released, and its attempt is not used again. */
export function releases(scene: Scene, who: number, setup: Setup): Scene {
  const candidate = scene.candidates[who] as Candidate
  const { grant } = candidate
  if (!grant) return scene
  const id = `n${scene.names + 1}`
  const of = { election, holder: holderOf(who, setup), leaseDurationMs: setup.leaseTicks, writeId: id, ...grant }
  const isKept = setup.mistake === 'keep the attempt after a release'
  const after: Candidate = {
    ...candidate,
    term: 0,
    grant: undefined,
    // A lock with this mistake uses the attempt as if it were a new one.
    pending: isKept ? { id: grant.attempt, afterTerm: candidate.highestTerm, isReleased: true } : undefined,
    waits: { id, verb: 'release', sentTicks: 0, isFirst: true },
  }
  return sent({ ...scene, names: scene.names + 1 }, who, after, { who, id, claim: { verb: 'release', of } })
}

export function holderOf(who: number, { candidates }: Setup): string {
  return `${['east', 'west'][candidates[who] ?? 0]}/${'abc'[who]}`
}

/** Handles a request without an answer. Its outcome is unknown. */
export function givesUp(candidate: Candidate, { retryTicks }: Setup): Candidate {
  return { ...candidate, waits: undefined, nextTicks: retryTicks }
}

/** Processes the answer that has arrived. */
export function takes(scene: Scene, who: number, setup: Setup): Scene {
  const candidate = scene.candidates[who] as Candidate
  const waits = candidate.waits as Waits & { answer: Outcome }
  const { answer, verb } = waits
  const after = answered({ ...candidate, waits: undefined }, waits, answer, verb, setup)
  const believed = after.term > scene.believed.term ? { term: after.term, who } : scene.believed
  return { ...scene, candidates: withAt(scene.candidates, who, after), believed }
}

function answered(candidate: Candidate, waits: Waits, answer: Outcome, verb: Waits['verb'], setup: Setup): Candidate {
  const { record } = answer
  const seen = Math.max(candidate.highestTerm, record?.term ?? 0, answer.ok ? 0 : answer.highestTerm)
  const known = { ...candidate, highestTerm: seen }
  if (verb === 'release') return { ...known, nextTicks: setup.retryTicks }
  const { mistake } = setup
  if (verb === 'acquire') {
    const resolved = { ...known, pending: undefined }
    if (!answer.ok) return { ...resolved, nextTicks: setup.retryTicks }
    const isCounted = waits.isFirst || mistake === 'count a grant that a repeated request found'
    return counted(granted(resolved, answer.record), waits, isCounted, setup)
  }
  if (answer.ok) return counted(granted(known, answer.record), waits, true, setup)
  const held = candidate.grant
  const isOwn = record?.attempt === held?.attempt && record?.term === held?.term && !record?.released
  // An earlier renewal was applied. The candidate adopts its version and renews at once.
  if (isOwn && record) {
    return counted(granted(known, record), waits, mistake === 'count a refusal that shows its own lease', setup)
  }
  return { ...known, grant: undefined, nextTicks: setup.retryTicks }
}

function granted(candidate: Candidate, { attempt, term, version }: NonNullable<Outcome['record']>): Candidate {
  return { ...candidate, grant: { attempt, term, version } }
}

/** If the answer came in time, the lease counts from now, as in client-go. Otherwise the candidate renews at once. */
function counted(candidate: Candidate, { sentTicks }: Waits, mayCount: boolean, setup: Setup): Candidate {
  const isInTime = -sentTicks <= setup.boundTicks || setup.mistake === 'ignore the bound'
  if (!mayCount || !isInTime) return { ...candidate, nextTicks: 0 }
  return { ...candidate, term: candidate.grant?.term ?? 0, returnedTicks: 0, nextTicks: setup.retryTicks }
}
