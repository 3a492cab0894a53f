/** Drops everything from a state that no decision and no check will read again, so that more states are equal. */
import { isSameHead, type StoredGroup, type StorageHead } from '../../../src/storage/storage.ts'
import { headOf, isConfirmation, type Kept, type ActiveTerm, type Scene, type Swap } from './scene.ts'

export function forget(scene: Scene): Scene {
  const left = { ...scene, orphans: stillRelevant(scene, scene.orphans) }
  let least = scene.confirmed.head.seq
  const activeTerms = scene.activeTerms.map((activeTerm, place) => {
    if (isHopeless(activeTerm, left)) return withoutPast(activeTerm, place)
    for (const { seq } of ownHeads(activeTerm)) least = Math.min(least, seq)
    return activeTerm.isEnded ? { ...activeTerm, memory: [] } : activeTerm
  })
  const confirmed = withoutOldSeqs(scene.confirmed, least - 1)
  const shown = scene.shown === scene.confirmed ? confirmed : withoutOldSeqs(scene.shown, least - 1)
  return { ...left, shown, confirmed, activeTerms }
}

/** The head that the term follows, and the heads that it has created. */
function ownHeads(activeTerm: ActiveTerm): StorageHead[] {
  const heads = newHeads(activeTerm)
  if (activeTerm.appender) heads.push(activeTerm.appender.head)
  return heads
}

/** The heads that may still be written. */
function newHeads({ appender, flight }: ActiveTerm): StorageHead[] {
  const heads: StorageHead[] = []
  if (appender?.open) heads.push(appender.open.batch.head, appender.open.instead.head)
  if (flight) heads.push(flight.head)
  return heads
}

const has = (heads: readonly StorageHead[], wanted: StorageHead) => heads.some((head) => isSameHead(head, wanted))

/** The orphans whose expected head exists or may still be written. */
function stillRelevant(scene: Scene, orphans: readonly Swap[]): readonly Swap[] {
  if (orphans.length === 0) return orphans
  const { shown, confirmed, activeTerms } = scene
  const coming = orphans.filter((orphan) => !isConfirmation(orphan)).map(({ head }) => head)
  const heads = [shown.head, confirmed.head, ...activeTerms.flatMap(newHeads), ...coming]
  const left = orphans.filter((orphan) => has(heads, orphan.over))
  if (left.length < orphans.length) return stillRelevant(scene, left)
  return left.toSorted((one, other) => one.head.seq - other.head.seq)
}

/** Whether none of the term's heads exists or can still be written. Then everything that the term sends is fenced. */
function isHopeless(activeTerm: ActiveTerm, { shown, confirmed, activeTerms, orphans }: Scene): boolean {
  if (!activeTerm.appender || activeTerm.flight?.answer === 'swapped') return false
  const own = ownHeads(activeTerm)
  if (has(own, shown.head) || has(own, confirmed.head)) return false
  if (orphans.some(({ over, head }) => has(own, over) || has(own, head))) return false
  return activeTerms.every((other) => other === activeTerm || !ownHeads(other).some((head) => has(own, head)))
}

/** Drops the head that the term follows and the records that it wants to write, which no longer matter. */
function withoutPast(activeTerm: ActiveTerm, place: number): ActiveTerm {
  const { appender, flight, task, term } = activeTerm
  if (!appender) return activeTerm
  const names = new Map<string, number>()
  const head = ({ seq, batch }: StorageHead) => {
    if (!names.has(batch)) names.set(batch, -1 - names.size - 10 * place)
    return headOf(term, seq - appender.head.seq - 10, names.get(batch) ?? 0)
  }
  const groups = (kept: readonly StoredGroup[]) => kept.map(({ id }) => ({ id, record: { term: -100 } }))
  const open = appender.open && {
    ...appender.open,
    batch: { head: head(appender.open.batch.head), groups: groups(appender.open.batch.groups) },
    instead: { head: head(appender.open.instead.head), groups: [] },
  }
  return {
    ...activeTerm,
    memory: [],
    appender: { ...appender, head: head(appender.head), open },
    flight: flight && { ...flight, over: head(flight.over), head: head(flight.head), groups: groups(flight.groups) },
    task: task && { ...task, groups: task.groups && groups(task.groups) },
  }
}

/** Only the seqs of recent entries are compared with a write that is not answered yet. */
function withoutOldSeqs(kept: Kept, least: number): Kept {
  return { ...kept, groups: kept.groups.map(({ value, seq }) => ({ value, seq: Math.max(seq, least) })) }
}
