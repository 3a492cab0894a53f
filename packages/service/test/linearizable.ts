/**
 * Checks whether a recorded history of one group could have come from a service that performs one operation at a time.
 *
 * The model is a single lease: the highest term, its holder, and whether the lease is live. Each operation took effect
 * at one moment between its sending and its answer. An operation without an answer took effect before its sender
 * learned that there would be none, or never. The search tries all orders that these bounds allow (Wing and Gong), and
 * places each operation as early in time as possible.
 *
 * Time matters in one place: a live lease can end by itself at any moment that is not before `sent + duration` of any
 * grant or renewal that took effect in its term. That is sound, because the service counts from the moment when it
 * received the request, which is after the sending, and it counts again from the start after a restart. The checker
 * does not check when a lease must end, because that is a question of speed.
 */
export interface Operation {
  readonly sentMs: number
  /** When an operation without an answer could certainly no longer take effect, because the service had ended. */
  readonly answeredMs: number
  readonly node: string
  readonly call:
    | { readonly type: 'campaign'; readonly ttlMs: number }
    | { readonly type: 'renew'; readonly term: number; readonly ttlMs: number }
    | { readonly type: 'resign'; readonly term: number }
    | { readonly type: 'leader' }
  /** `leader` is the leader according to the answer. Undefined: the outcome is unknown. */
  readonly answer: { readonly ok: boolean; readonly leader: Holder | null | undefined } | undefined
}

export interface Holder {
  readonly node: string
  readonly term: number
}

interface State {
  readonly term: number
  readonly node: string
  readonly live: boolean
  /** The lease may not end by itself before this moment. */
  readonly untilMs: number
  /** The moment of the last operation. */
  readonly nowMs: number
}

export interface CheckOptions {
  /**
   * Whether a call may take effect twice, because a replica that forwarded it sent it again. In that case a campaign
   * may have won a term that expired before its answer and that its sender never learned of. Default: false.
   */
  readonly repeats?: boolean
}

/** Returns a description of the answers that no order can explain, or undefined if the history is linearizable. */
export function unexplained(history: readonly Operation[], { repeats = false }: CheckOptions = {}): string | undefined {
  const answered = history.filter(({ answer }) => answer).sort((a, b) => a.sentMs - b.sentMs)
  const unanswered = guesses(history, repeats).sort((a, b) => a.sentMs - b.sentMs)
  const start: State = { term: 0, node: '', live: false, untilMs: 0, nowMs: -Infinity }
  const stack: Place[] = [{ first: 0, done: [], state: start }]
  const seen = new Set<string>()
  let furthest = 0
  for (let place = stack.pop(); place; place = stack.pop()) {
    if (place.first >= answered.length) return undefined
    furthest = Math.max(furthest, place.first)
    const key = JSON.stringify(place)
    if (seen.has(key)) continue
    seen.add(key)
    stack.push(...next(answered, unanswered, place))
  }
  const around = answered.slice(Math.max(0, furthest - 10), furthest + 10)
  return `No order explains these answers:\n${around.map((one) => JSON.stringify(one)).join('\n')}`
}

/** A state of the search: the operations that are already placed in the order. */
interface Place {
  /** All answered operations before this index are placed. */
  readonly first: number
  /** The indexes after `first` that are also placed. */
  readonly done: readonly number[]
  readonly state: State
}

function next(answered: readonly Operation[], unanswered: readonly Operation[], place: Place): Place[] {
  let firstAnswerMs = Infinity
  const open: number[] = []
  for (let index = place.first; index < answered.length; index++) {
    const operation = answered[index]
    if (!operation || operation.sentMs > firstAnswerMs) break
    if (place.done.includes(index)) continue
    open.push(index)
    firstAnswerMs = Math.min(firstAnswerMs, operation.answeredMs)
  }
  const places: Place[] = []
  let firstGoneMs = Infinity
  for (const operation of unanswered) {
    if (operation.sentMs > firstAnswerMs) break
    if (operation.answeredMs < place.state.nowMs) continue
    firstGoneMs = Math.min(firstGoneMs, operation.answeredMs)
    if (isOfAnotherTerm(operation, place.state)) continue
    const state = effect(operation, place.state)
    if (state && !sameLease(state, place.state)) places.push({ ...place, state })
  }
  for (const index of open) {
    const operation = answered[index]
    const state = operation && operation.sentMs <= firstAnswerMs ? effect(operation, place.state) : undefined
    if (!state) continue
    const placed = after(place, index, state)
    // An operation that changes nothing does not constrain operations that were answered or abandoned after it was
    // sent.
    if (sameLease(state, place.state) && state.nowMs <= firstGoneMs) return [placed]
    places.push(placed)
  }
  return places
}

/**
 * Whether the operation belongs to another term and so cannot take effect in this state. Most unanswered operations
 * belong to much older terms. The check runs at every step, so it must be cheap.
 */
function isOfAnotherTerm({ call, answer }: Operation, { term }: State): boolean {
  return call.type === 'resign' ? call.term !== term : (answer?.leader?.term ?? Infinity) <= term
}

function after({ first, done }: Place, index: number, state: State): Place {
  const all = new Set([...done, index])
  let rest = first
  while (all.delete(rest)) rest++
  return { first: rest, done: [...all].sort((a, b) => a - b), state }
}

function sameLease(one: State, other: State): boolean {
  return one.term === other.term && one.live === other.live && one.untilMs === other.untilMs
}

/** The state after the operation, or undefined if the operation cannot have had this answer in this state. */
function effect(operation: Operation, before: State): State | undefined {
  for (const state of [before, ...expired(before)]) {
    const nowMs = Math.max(state.nowMs, operation.sentMs)
    if (nowMs > operation.answeredMs) continue
    const then = applied(operation, { ...state, nowMs })
    if (then) return then
  }
  return undefined
}

function expired(state: State): State[] {
  if (!state.live) return []
  return [{ ...state, live: false, nowMs: Math.max(state.nowMs, state.untilMs) }]
}

function applied({ call, node, answer, sentMs }: Operation, state: State): State | undefined {
  if (!answer) return undefined
  const holds = state.live && state.node === node
  if (call.type === 'leader' || !answer.ok) {
    const shown = answer.leader
    if (shown === null && state.live) return undefined
    if (shown && !(state.live && state.term === shown.term && state.node === shown.node)) return undefined
    if (call.type === 'renew' && holds && state.term === call.term) return undefined
    if (call.type === 'resign' && state.term === call.term && state.node === node) return undefined
    return state
  }
  switch (call.type) {
    case 'campaign': {
      const term = answer.leader?.term
      if (state.live || term === undefined || term <= state.term) return undefined
      return { ...state, term, node, live: true, untilMs: sentMs + call.ttlMs }
    }
    case 'renew':
      if (!holds || state.term !== call.term) return undefined
      return { ...state, untilMs: Math.max(state.untilMs, sentMs + call.ttlMs) }
    case 'resign':
      if (state.term !== call.term || state.node !== node) return undefined
      return { ...state, live: false }
  }
}

/**
 * The operations that may have taken effect without an answer and that anyone could notice: resignations, and campaigns
 * of nodes that were observed in a term whose grant was never answered. A renewal only makes a lease longer, and no
 * answer depends on that.
 */
function guesses(history: readonly Operation[], repeats: boolean): Operation[] {
  const granted = new Map<number, number>()
  const seen = new Map<number, Holder & { readonly byMs: number }>()
  for (const { call, answer, sentMs, answeredMs } of history) {
    const leader = answer?.leader
    if (!leader) continue
    const byMs = Math.min(answeredMs, seen.get(leader.term)?.byMs ?? Infinity)
    seen.set(leader.term, { ...leader, byMs })
    if (call.type === 'campaign' && answer.ok) granted.set(leader.term, sentMs)
  }
  // Each of these terms was granted after all terms below it and before anyone observed it.
  const orphans = [...seen.values()]
    .filter(({ term }) => !granted.has(term))
    .map((orphan) => ({
      ...orphan,
      fromMs: Math.max(...[...granted].map(([term, ms]) => (term < orphan.term ? ms : 0))),
    }))
  return history.flatMap((operation): Operation[] => {
    if (operation.answer && !(repeats && operation.call.type === 'campaign')) return []
    if (operation.call.type === 'resign') return [{ ...operation, answer: { ok: true, leader: undefined } }]
    if (operation.call.type !== 'campaign') return []
    return orphans
      .filter(({ node, fromMs, byMs }) => {
        return node === operation.node && operation.sentMs <= byMs && operation.answeredMs >= fromMs
      })
      .map(({ term, node }) => ({ ...operation, answer: { ok: true, leader: { node, term } } }))
  })
}
