/** The moves that are possible in a state. */
import { ServiceError } from '../../../src/errors.ts'
import { answered, changed, ended, newAppender, next } from '../../../src/storage/appender.ts'
import { isSameHead, type KeptGroup } from '../../../src/storage/storage.ts'
import type { Course } from './course.ts'
import {
  isConfirmation,
  keptGroup,
  type AppenderFault,
  type Flight,
  type Kept,
  type Reign,
  type Scene,
  type Setup,
  type Swap,
} from './scene.ts'

/** One possible move. */
export interface Move {
  readonly what: string
  /** The term that this move advances if nothing goes wrong. */
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
    ...scene.reigns.flatMap((reign) => [...flightMoves(scene, reign), ...ownMoves(scene, setup, reign)]),
    ...scene.orphans.flatMap((orphan) => orphanMoves(scene, orphan)),
  ]
  if (scene.reigns.length < setup.replicas) {
    moves.push({ what: `term ${scene.term + 1} is elected`, elects: true, run: () => elect(scene) })
  }
  if (scene.shown !== scene.confirmed) {
    moves.push({ what: 'the storage fails over', run: () => ({ ...scene, shown: scene.confirmed }) })
  }
  return moves.filter(({ fault }) => !fault || (scene.budget > 0 && setup.faults.has(fault)))
}

/** The possible outcomes of an append in flight. */
function flightMoves(scene: Scene, reign: Reign): Move[] {
  const { flight, term } = reign
  if (!flight) return []
  const unknown = (at: Scene, course: Course) => take(at, reign, 'failed', course)
  const cut: Move = { what: `term ${term} crashes`, fault: 'crash', run: () => drop(leaveBehind(scene, reign), reign) }
  if (flight.answer !== undefined) {
    const { answer } = flight
    return [
      { what: `term ${term} hears`, helps: term, run: (course) => take(scene, reign, answer, course) },
      { what: `term ${term} hears nothing`, fault: 'unheard', run: (course) => unknown(scene, course) },
      cut,
    ]
  }
  const arrives = (at: Scene, course: Course, isCancelled: boolean) => {
    const { scene: after, answer: found } = arrive(at, flight, course, isCancelled)
    const answer = isRolledBack(at, reign) ? 'failed' : found
    if (answer === 'other') course.fences(at, reign)
    return put(after, { ...reign, flight: { ...flight, answer } })
  }
  const moves: Move[] = [
    { what: `what term ${term} sent arrives`, helps: term, run: (course) => arrives(scene, course, false) },
    { what: `what term ${term} sent is lost`, fault: 'lost', run: (course) => unknown(scene, course) },
    {
      what: `what term ${term} sent is late`,
      fault: 'late',
      run: (course) => unknown(leaveBehind(scene, reign), course),
    },
    {
      what: `what term ${term} sent arrives, and once more later`,
      fault: 'doubled',
      run: (course) => arrives(leaveBehind(scene, reign), course, false),
    },
    cut,
  ]
  if (mayCancel(scene, flight)) {
    const what = `what term ${term} sent is shown, and not confirmed`
    moves.push({ what, fault: 'cancelled', run: (course) => arrives(scene, course, true) })
  }
  return moves
}

/** What `ServerStorage` detects: the batch to confirm is lost, and the head before it is back. */
function isRolledBack({ shown }: Scene, { appender, flight }: Reign): boolean {
  return (
    appender !== undefined && flight !== undefined && isConfirmation(flight) && isSameHead(shown.head, appender.head)
  )
}

function orphanMoves(scene: Scene, orphan: Swap): Move[] {
  const left = { ...scene, orphans: scene.orphans.filter((other) => other !== orphan) }
  const what = `what term ${orphan.head.term} sent before arrives`
  const moves: Move[] = [{ what, run: (course) => arrive(left, orphan, course).scene }]
  if (mayCancel(scene, orphan)) {
    const cancelled = (course: Course) => arrive(left, orphan, course, true).scene
    moves.push({ what: `${what}, and is not confirmed`, fault: 'cancelled', run: cancelled })
  }
  return moves
}

/** An unconfirmed confirmation changes nothing. */
function mayCancel({ shown }: Scene, swap: Swap): boolean {
  return isSameHead(shown.head, swap.over) && !isConfirmation(swap)
}

/** The moves that a replica makes by itself. */
function ownMoves(scene: Scene, setup: Setup, reign: Reign): Move[] {
  const { term, phase, flight, appender, isEnded } = reign
  if (isEnded) return []
  const moves: Move[] = []
  const add = (what: string, run: (course: Course) => Scene, helps?: number) => moves.push({ what, helps, run })
  if (!flight && phase === 'elected') {
    add(`term ${term} looks, and swaps the head`, (course) => look(scene, reign, course), term)
  }
  if (!flight && phase === 'swapping') {
    add(`term ${term} swaps the head again`, (course) => begin(scene, reign, [], course), term)
  }
  if (!flight && phase === 'swapped') add(`term ${term} loads`, (course) => load(scene, reign, course), term)
  if (!flight && phase === 'serving') {
    // The groups are symmetric, so one choice is enough.
    for (const groups of setup.groups > 1 ? [[0], [0, 1]] : [[0]]) {
      add(`term ${term} writes ${groups.join(' and ')}`, (course) => write(scene, reign, groups, course), term)
    }
    if (appender && (appender.open || appender.unheard.length > 0)) {
      add(`term ${term} checks`, (course) => begin(scene, reign, undefined, course))
    }
  }
  add(`term ${term} ends`, () => {
    if (!flight || !appender) return drop(scene, reign)
    return put(scene, { ...reign, isEnded: true, appender: ended(appender, over) })
  })
  return moves
}

function elect(scene: Scene): Scene {
  const term = scene.term + 1
  const reign: Reign = { term, phase: 'elected', isEnded: false, memory: [] }
  return { ...scene, term, reigns: [...scene.reigns, reign] }
}

/** Takes over like `ActiveTerm`: a head of a later term ends the attempt. */
function look(scene: Scene, reign: Reign, course: Course): Scene {
  const { head } = scene.shown
  if (head.term >= reign.term) return drop(scene, reign)
  const appender = changed(newAppender(head), { term: reign.term })
  return begin(scene, { ...reign, phase: 'swapping', appender }, [], course)
}

/** The head that was swapped must be the head that is loaded. */
function load(scene: Scene, reign: Reign, course: Course): Scene {
  const { shown } = scene
  if (!reign.appender || !isSameHead(shown.head, reign.appender.head)) return drop(scene, reign)
  course.loads(scene, reign)
  const memory = shown.groups.map(({ value }) => value)
  const loaded: Reign = { ...reign, phase: 'serving', appender: newAppender(shown.head), memory }
  return put({ ...scene, loadedTerm: Math.max(scene.loadedTerm, reign.term) }, loaded)
}

function write(scene: Scene, reign: Reign, groups: readonly number[], course: Course): Scene {
  const asked = groups.map((group, index) => keptGroup(group, scene.names + 1 + index))
  return begin({ ...scene, names: scene.names + groups.length }, reign, asked, course)
}

function begin(scene: Scene, reign: Reign, groups: readonly KeptGroup[] | undefined, course: Course): Scene {
  return send(scene, { ...reign, task: { groups, isAsked: false } }, course)
}

/** Sends like `Journal`, until the request is sent or the term is over. */
function send(scene: Scene, reign: Reign, course: Course): Scene {
  const { appender, task, memory } = reign
  if (!appender || !task) return scene
  let { names } = scene
  const source = {
    newId: () => String(++names),
    recordNow: (id: string) => ({ term: memory[Number(id)] ?? 0 }),
    fitting: () => 1,
  }
  const sending = unlessOver(() => next(appender, task.groups, source))
  if (sending === 'over') return fail(scene, reign)
  if (!sending) return put(scene, { ...reign, task: undefined })
  const { state, batch, isAsked } = sending
  const flight = { over: state.head, ...batch }
  course.sends(scene, { ...reign, appender: state }, isAsked, appender.over !== undefined)
  return put({ ...scene, names }, { ...reign, appender: state, task: { ...task, isAsked }, flight })
}

function unlessOver<T>(decide: () => T): T | 'over' {
  try {
    return decide()
  } catch (error) {
    if (error instanceof ServiceError) return 'over'
    throw error
  }
}

/** Handles an answer like `ServerStorage.append`: a replica's own head that was only read is written again. */
function take(scene: Scene, reign: Reign, answer: NonNullable<Flight['answer']>, course: Course): Scene {
  const { flight, appender, task } = reign
  if (!flight || !appender || !task) return scene
  const heard: Reign = { ...reign, flight: undefined }
  if (answer === 'own') {
    return put(scene, { ...heard, flight: { over: flight.head, head: flight.head, groups: [] } })
  }
  const appended = answer === 'swapped' ? 'done' : answer === 'failed' ? 'unknown' : 'fenced'
  const after = { ...heard, appender: answered(appender, appended) }
  if (after.appender.over !== appender.over) course.counts.fenced += 1
  if (appended === 'unknown') {
    course.counts.unknown += 1
    return fail(scene, after)
  }
  return task.isAsked && appended === 'done' ? succeed(scene, after, course) : send(scene, after, course)
}

/** The writers learn that their write failed: its outcome is unknown, or the active term is over. */
function fail(scene: Scene, reign: Reign): Scene {
  if (reign.isEnded) return drop(scene, reign)
  const failed = { ...reign, task: undefined }
  if (!reign.appender?.over) return put(scene, failed)
  if (reign.phase === 'serving') return drop(scene, reign)
  // A write of a predecessor intervened, so the replica reads the head again.
  return put(scene, { ...failed, phase: 'elected', appender: undefined })
}

function succeed(scene: Scene, reign: Reign, course: Course): Scene {
  const { task, appender } = reign
  if (!task?.groups || !appender) return scene
  course.done(scene, task.groups, appender.head)
  if (reign.isEnded) return drop(scene, reign)
  const heard: Reign = { ...reign, task: undefined }
  if (reign.phase === 'swapping') return put(scene, { ...heard, phase: 'swapped' })
  const memory = [...reign.memory]
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

function put(scene: Scene, reign: Reign): Scene {
  return { ...scene, reigns: scene.reigns.map((other) => (other.term === reign.term ? reign : other)) }
}

function drop(scene: Scene, { term }: Reign): Scene {
  return { ...scene, reigns: scene.reigns.filter((other) => other.term !== term) }
}

/** An append in flight may arrive later, and nobody waits for it. */
function leaveBehind(scene: Scene, { flight }: Reign): Scene {
  if (!flight || flight.answer !== undefined) return scene
  const { over: under, head, groups } = flight
  return { ...scene, orphans: [...scene.orphans, { over: under, head, groups }] }
}
