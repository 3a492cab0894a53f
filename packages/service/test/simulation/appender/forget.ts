/** Drops everything from a state that no decision and no check will read again, so that more states are equal. */
import { isSameHead, type KeptGroup, type StorageHead } from '../../../src/storage/storage.ts'
import { headOf, isConfirmation, type Kept, type Reign, type Scene, type Swap } from './scene.ts'

export function forget(scene: Scene): Scene {
  const left = { ...scene, orphans: stillRelevant(scene, scene.orphans) }
  let least = scene.confirmed.head.seq
  const reigns = scene.reigns.map((reign, place) => {
    if (isHopeless(reign, left)) return withoutPast(reign, place)
    for (const { seq } of ownHeads(reign)) least = Math.min(least, seq)
    return reign.isEnded ? { ...reign, memory: [] } : reign
  })
  const confirmed = withoutOldSeqs(scene.confirmed, least - 1)
  const shown = scene.shown === scene.confirmed ? confirmed : withoutOldSeqs(scene.shown, least - 1)
  return { ...left, shown, confirmed, reigns }
}

/** The head that it follows and the heads that it has created. */
function ownHeads(reign: Reign): StorageHead[] {
  const heads = newHeads(reign)
  if (reign.appender) heads.push(reign.appender.head)
  return heads
}

/** The heads that may still be written. */
function newHeads({ appender, flight }: Reign): StorageHead[] {
  const heads: StorageHead[] = []
  if (appender?.open) heads.push(appender.open.batch.head, appender.open.instead.head)
  if (flight) heads.push(flight.head)
  return heads
}

const has = (heads: readonly StorageHead[], wanted: StorageHead) => heads.some((head) => isSameHead(head, wanted))

/** The orphans whose expected head exists or may still be written. */
function stillRelevant(scene: Scene, orphans: readonly Swap[]): readonly Swap[] {
  if (orphans.length === 0) return orphans
  const { shown, confirmed, reigns } = scene
  const coming = orphans.filter((orphan) => !isConfirmation(orphan)).map(({ head }) => head)
  const heads = [shown.head, confirmed.head, ...reigns.flatMap(newHeads), ...coming]
  const left = orphans.filter((orphan) => has(heads, orphan.over))
  if (left.length < orphans.length) return stillRelevant(scene, left)
  return left.toSorted((one, other) => one.head.seq - other.head.seq)
}

/** None of its heads exists or can still be written, so everything that it sends is fenced. */
function isHopeless(reign: Reign, { shown, confirmed, reigns, orphans }: Scene): boolean {
  if (!reign.appender || reign.flight?.answer === 'swapped') return false
  const own = ownHeads(reign)
  if (has(own, shown.head) || has(own, confirmed.head)) return false
  if (orphans.some(({ over, head }) => has(own, over) || has(own, head))) return false
  return reigns.every((other) => other === reign || !ownHeads(other).some((head) => has(own, head)))
}

/** The head that it follows and the records that it wants to write no longer matter. */
function withoutPast(reign: Reign, place: number): Reign {
  const { appender, flight, task, term } = reign
  if (!appender) return reign
  const names = new Map<string, number>()
  const head = ({ seq, batch }: StorageHead) => {
    if (!names.has(batch)) names.set(batch, -1 - names.size - 10 * place)
    return headOf(term, seq - appender.head.seq - 10, names.get(batch) ?? 0)
  }
  const groups = (kept: readonly KeptGroup[]) => kept.map(({ id }) => ({ id, record: { term: -100 } }))
  const open = appender.open && {
    ...appender.open,
    batch: { head: head(appender.open.batch.head), groups: groups(appender.open.batch.groups) },
    instead: { head: head(appender.open.instead.head), groups: [] },
  }
  return {
    ...reign,
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
