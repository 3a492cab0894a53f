/** The moves that are possible in a state. */
import { ServiceError } from '../../../src/common/errors.ts'
import { answered, changed, ended, newAppender, next } from '../../../src/storage/appender.ts'
import { isSameHead, type StoredGroup } from '../../../src/storage/storage.ts'
import type { Course } from './invariants.ts'
import {
  isConfirmation,
  keptGroup,
  type AppenderFault,
  type Flight,
  type Kept,
  type ActiveTerm,
  type Scene,
  type Setup,
  type Swap,
} from './scene.ts'

/** One possible move. */
export interface Move {
  readonly what: string
  /** The term that this move advances if no fault occurs. */
  readonly helps?: number | undefined
  /** Whether another replica becomes active. */
  readonly elects?: boolean | undefined
  readonly fault?: AppenderFault | undefined
  run(course: Course): Scene
}

const over = new ServiceError('BACKEND_UNAVAILABLE', 'It is over.')

/** Returns the moves, always in the same order. */
export function movesOf(scene: Scene, setup: Setup): Move[] {
  const moves = [
    ...scene.activeTerms.flatMap((activeTerm) => [
      ...flightMoves(scene, activeTerm),
      ...ownMoves(scene, setup, activeTerm),
    ]),
    ...scene.orphans.flatMap((orphan) => orphanMoves(scene, orphan)),
  ]
  if (scene.activeTerms.length < setup.replicas) {
    moves.push({ what: `term ${scene.term + 1} is elected`, elects: true, run: () => elect(scene) })
  }
  if (scene.shown !== scene.confirmed) {
    moves.push({ what: 'the storage fails over', run: () => ({ ...scene, shown: scene.confirmed }) })
  }
  return moves.filter(({ fault }) => !fault || (scene.budget > 0 && setup.faults.has(fault)))
}

/** The possible outcomes of an append in flight. */
function flightMoves(scene: Scene, activeTerm: ActiveTerm): Move[] {
  const { flight, term } = activeTerm
  if (!flight) return []
  const unknown = (at: Scene, course: Course) => take(at, activeTerm, 'failed', course)
  const cut: Move = {
    what: `term ${term} crashes`,
    fault: 'crash',
    run: () => drop(leaveBehind(scene, activeTerm), activeTerm),
  }
  if (flight.answer !== undefined) {
    const { answer } = flight
    return [
      { what: `term ${term} hears`, helps: term, run: (course) => take(scene, activeTerm, answer, course) },
      { what: `term ${term} hears nothing`, fault: 'unheard', run: (course) => unknown(scene, course) },
      cut,
    ]
  }
  const arrives = (at: Scene, course: Course, isCancelled: boolean) => {
    const { scene: after, answer: found } = arrive(at, flight, course, isCancelled)
    const answer = isRolledBack(at, activeTerm) ? 'failed' : found
    if (answer === 'other') course.fences(at, activeTerm)
    return put(after, { ...activeTerm, flight: { ...flight, answer } })
  }
  const moves: Move[] = [
    { what: `the request of term ${term} arrives`, helps: term, run: (course) => arrives(scene, course, false) },
    { what: `the request of term ${term} is lost`, fault: 'lost', run: (course) => unknown(scene, course) },
    {
      what: `the request of term ${term} is late`,
      fault: 'late',
      run: (course) => unknown(leaveBehind(scene, activeTerm), course),
    },
    {
      what: `the request of term ${term} arrives, and arrives once more later`,
      fault: 'doubled',
      run: (course) => arrives(leaveBehind(scene, activeTerm), course, false),
    },
    cut,
  ]
  if (mayCancel(scene, flight)) {
    const what = `the request of term ${term} takes effect but is not confirmed`
    moves.push({ what, fault: 'cancelled', run: (course) => arrives(scene, course, true) })
  }
  return moves
}

/**
 * Returns whether `ServerStorage` would detect a rollback: the batch to confirm is lost, and the storage has the
 * previous head again.
 */
function isRolledBack({ shown }: Scene, { appender, flight }: ActiveTerm): boolean {
  return (
    appender !== undefined && flight !== undefined && isConfirmation(flight) && isSameHead(shown.head, appender.head)
  )
}

function orphanMoves(scene: Scene, orphan: Swap): Move[] {
  const left = { ...scene, orphans: scene.orphans.filter((other) => other !== orphan) }
  const what = `an earlier request of term ${orphan.head.term} arrives`
  const moves: Move[] = [{ what, run: (course) => arrive(left, orphan, course).scene }]
  if (mayCancel(scene, orphan)) {
    const cancelled = (course: Course) => arrive(left, orphan, course, true).scene
    moves.push({ what: `${what} but is not confirmed`, fault: 'cancelled', run: cancelled })
  }
  return moves
}

/** Whether the request may take effect without being confirmed. For a confirmation, that would change nothing. */
function mayCancel({ shown }: Scene, swap: Swap): boolean {
  return isSameHead(shown.head, swap.over) && !isConfirmation(swap)
}

/** The moves that a replica makes on its own. */
function ownMoves(scene: Scene, setup: Setup, activeTerm: ActiveTerm): Move[] {
  const { term, phase, flight, appender, isEnded } = activeTerm
  if (isEnded) return []
  const moves: Move[] = []
  const add = (what: string, run: (course: Course) => Scene, helps?: number) => moves.push({ what, helps, run })
  if (!flight && phase === 'elected') {
    add(`term ${term} reads the head and swaps it`, (course) => look(scene, activeTerm, course), term)
  }
  if (!flight && phase === 'swapping') {
    add(`term ${term} swaps the head again`, (course) => begin(scene, activeTerm, [], course), term)
  }
  if (!flight && phase === 'swapped') add(`term ${term} loads`, (course) => load(scene, activeTerm, course), term)
  if (!flight && phase === 'serving') {
    // The groups are symmetric, so one choice is enough.
    for (const groups of setup.groups > 1 ? [[0], [0, 1]] : [[0]]) {
      add(`term ${term} writes ${groups.join(' and ')}`, (course) => write(scene, activeTerm, groups, course), term)
    }
    if (appender && (appender.open || appender.unconfirmed.length > 0)) {
      add(`term ${term} checks`, (course) => begin(scene, activeTerm, undefined, course))
    }
  }
  add(`term ${term} ends`, () => {
    if (!flight || !appender) return drop(scene, activeTerm)
    return put(scene, { ...activeTerm, isEnded: true, appender: ended(appender, over) })
  })
  return moves
}

function elect(scene: Scene): Scene {
  const term = scene.term + 1
  const activeTerm: ActiveTerm = { term, phase: 'elected', isEnded: false, memory: [] }
  return { ...scene, term, activeTerms: [...scene.activeTerms, activeTerm] }
}

/** Takes over like `active-term.ts` of the service: a head of a later term ends the attempt. */
function look(scene: Scene, activeTerm: ActiveTerm, course: Course): Scene {
  const { head } = scene.shown
  if (head.term >= activeTerm.term) return drop(scene, activeTerm)
  const appender = changed(newAppender(head), { term: activeTerm.term })
  return begin(scene, { ...activeTerm, phase: 'swapping', appender }, [], course)
}

/** Loads the groups. The head that is loaded must be the one that the replica has swapped in. */
function load(scene: Scene, activeTerm: ActiveTerm, course: Course): Scene {
  const { shown } = scene
  if (!activeTerm.appender || !isSameHead(shown.head, activeTerm.appender.head)) return drop(scene, activeTerm)
  course.loads(scene, activeTerm)
  const memory = shown.groups.map(({ value }) => value)
  const loaded: ActiveTerm = { ...activeTerm, phase: 'serving', appender: newAppender(shown.head), memory }
  return put({ ...scene, loadedTerm: Math.max(scene.loadedTerm, activeTerm.term) }, loaded)
}

function write(scene: Scene, activeTerm: ActiveTerm, groups: readonly number[], course: Course): Scene {
  const asked = groups.map((group, index) => keptGroup(group, scene.names + 1 + index))
  return begin({ ...scene, names: scene.names + groups.length }, activeTerm, asked, course)
}

function begin(
  scene: Scene,
  activeTerm: ActiveTerm,
  groups: readonly StoredGroup[] | undefined,
  course: Course,
): Scene {
  return send(scene, { ...activeTerm, task: { groups, isAsked: false } }, course)
}

/** Sends like `Journal`, until the request is sent or the term has ended. */
function send(scene: Scene, activeTerm: ActiveTerm, course: Course): Scene {
  const { appender, task, memory } = activeTerm
  if (!appender || !task) return scene
  let { names } = scene
  const source = {
    newId: () => String(++names),
    recordNow: (id: string) => ({ term: memory[Number(id)] ?? 0 }),
    fitting: () => 1,
  }
  const sending = unlessOver(() => next(appender, task.groups, source))
  if (sending === 'over') return fail(scene, activeTerm)
  if (!sending) return put(scene, { ...activeTerm, task: undefined })
  const { state, batch, isAsked } = sending
  const flight = { over: state.head, ...batch }
  course.sends(scene, { ...activeTerm, appender: state }, isAsked, appender.endReason !== undefined)
  return put({ ...scene, names }, { ...activeTerm, appender: state, task: { ...task, isAsked }, flight })
}

function unlessOver<T>(decide: () => T): T | 'over' {
  try {
    return decide()
  } catch (error) {
    if (error instanceof ServiceError) return 'over'
    throw error
  }
}

/** Handles an answer as `ServerStorage.append` does: a replica's own head that was only read is written again. */
function take(scene: Scene, activeTerm: ActiveTerm, answer: NonNullable<Flight['answer']>, course: Course): Scene {
  const { flight, appender, task } = activeTerm
  if (!flight || !appender || !task) return scene
  const heard: ActiveTerm = { ...activeTerm, flight: undefined }
  if (answer === 'own') {
    return put(scene, { ...heard, flight: { over: flight.head, head: flight.head, groups: [] } })
  }
  const appended = answer === 'swapped' ? 'done' : answer === 'failed' ? 'unknown' : 'fenced'
  const after = { ...heard, appender: answered(appender, appended) }
  if (after.appender.endReason !== appender.endReason) course.counts.fenced += 1
  if (appended === 'unknown') {
    course.counts.unknown += 1
    return fail(scene, after)
  }
  return task.isAsked && appended === 'done' ? succeed(scene, after, course) : send(scene, after, course)
}

/** The writers learn that their write failed: its outcome is unknown, or the active term has ended. */
function fail(scene: Scene, activeTerm: ActiveTerm): Scene {
  if (activeTerm.isEnded) return drop(scene, activeTerm)
  const failed = { ...activeTerm, task: undefined }
  if (!activeTerm.appender?.endReason) return put(scene, failed)
  if (activeTerm.phase === 'serving') return drop(scene, activeTerm)
  // A write of a predecessor intervened, so the replica reads the head again.
  return put(scene, { ...failed, phase: 'elected', appender: undefined })
}

function succeed(scene: Scene, activeTerm: ActiveTerm, course: Course): Scene {
  const { task, appender } = activeTerm
  if (!task?.groups || !appender) return scene
  course.done(scene, task.groups, appender.head)
  if (activeTerm.isEnded) return drop(scene, activeTerm)
  const heard: ActiveTerm = { ...activeTerm, task: undefined }
  if (activeTerm.phase === 'swapping') return put(scene, { ...heard, phase: 'swapped' })
  const memory = [...activeTerm.memory]
  for (const { id, record } of task.groups) memory[Number(id)] = record.term
  return put(scene, { ...heard, memory })
}

/** The storage compares and writes in one step. */
function arrive(
  scene: Scene,
  swap: Swap,
  course: Course,
  isCancelled = false,
): { readonly scene: Scene; readonly answer: NonNullable<Flight['answer']> } {
  const { shown } = scene
  if (!isSameHead(shown.head, swap.over)) return { scene, answer: isSameHead(shown.head, swap.head) ? 'own' : 'other' }
  if (!isConfirmation(swap)) course.takes(scene, swap)
  const groups = [...shown.groups]
  for (const { id, record } of swap.groups) groups[Number(id)] = { value: record.term, seq: swap.head.seq }
  const kept: Kept = { head: swap.head, groups }
  if (isCancelled) return { scene: { ...scene, shown: kept }, answer: 'failed' }
  course.confirms(scene.confirmed, kept)
  const loadedTerm = Math.max(scene.loadedTerm, kept.head.term)
  return { scene: { ...scene, shown: kept, confirmed: kept, loadedTerm }, answer: 'swapped' }
}

function put(scene: Scene, activeTerm: ActiveTerm): Scene {
  return {
    ...scene,
    activeTerms: scene.activeTerms.map((other) => (other.term === activeTerm.term ? activeTerm : other)),
  }
}

function drop(scene: Scene, { term }: ActiveTerm): Scene {
  return { ...scene, activeTerms: scene.activeTerms.filter((other) => other.term !== term) }
}

/** An append in flight may arrive later, and nobody waits for it. */
function leaveBehind(scene: Scene, { flight }: ActiveTerm): Scene {
  if (!flight || flight.answer !== undefined) return scene
  const { over: under, head, groups } = flight
  return { ...scene, orphans: [...scene.orphans, { over: under, head, groups }] }
}
