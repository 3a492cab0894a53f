/** The store's server. It applies the rules of `store-kit/rules.ts` in one step, as every store does. */
import type { AcquireClaim, HeldClaim, LeaseRecord, Outcome } from 'tenure'
import { type Current, granted, judgeAcquire, judgeRelease, judgeRenew, refused, type Verdict } from 'tenure/store-kit'
import { remainingMs, type TransitionChecker } from './checker.ts'
import { nameOf } from './fields.ts'
import type { ModelMessage, ModelReply, ModelState, ModelServer, Setup, ModelSlot } from './model-state.ts'

/** Applies a request. `swapIsLost`: another write came first, so the request is decided and then refused. */
export function handle(
  scene: ModelState,
  request: ModelMessage,
  setup: Setup,
  course: TransitionChecker,
  swapIsLost = false,
): { scene: ModelState; reply: ModelReply } {
  const { server } = scene
  const { verb, claim } = request
  if (!claim) return { scene, reply: { record: server.record } }
  const current: Current = { ...server, remainingMs: remainingMs(server, setup.expiry) }
  const verdict = judge(verb, current, claim as AcquireClaim & HeldClaim)
  if ('answer' in verdict) return { scene, reply: { outcome: verdict.answer } }
  if (swapIsLost) return { scene, reply: { outcome: refused(current) } }
  const names = scene.names + 1
  const record: LeaseRecord = { ...verdict.write, version: nameOf(names) }
  if (verb === 'acquire') course.granted(scene, record)
  if (verb === 'release') course.released(scene, record)
  const outcome: Outcome = granted(record, claim)
  const slots = verb === 'release' ? scene.slots.map((slot) => givenBack(slot, record)) : scene.slots
  return { scene: written({ ...scene, names, slots }, record, setup, verb === 'acquire'), reply: { outcome } }
}

function givenBack(slot: ModelSlot, { term }: LeaseRecord): ModelSlot {
  return slot.state?.grant?.record.term === term ? { ...slot, gaveBack: true } : slot
}

function judge(verb: ModelMessage['verb'], current: Current, claim: AcquireClaim & HeldClaim): Verdict {
  if (verb === 'acquire') return judgeAcquire(current, claim, 0)
  return verb === 'renew' ? judgeRenew(current, claim, 0) : judgeRelease(current, claim)
}

/** Rewrites the record unchanged, or deletes it, as another program would. */
export function meddled(scene: ModelState, setup: Setup, deletes: boolean): ModelState {
  const { record } = scene.server
  if (!record || deletes) {
    const slots = scene.slots.map((slot) => ({ ...slot, disturbed: slot.state !== undefined }))
    return changed({ ...scene, slots }, { ...scene.server, record: undefined }, setup)
  }
  const names = scene.names + 1
  return changed({ ...scene, names }, { ...scene.server, record: { ...record, version: nameOf(names) } }, setup)
}

function written(scene: ModelState, record: LeaseRecord, setup: Setup, isGrant: boolean): ModelState {
  const { server } = scene
  const next: ModelServer = {
    ...server,
    record,
    highestTerm: Math.max(server.highestTerm, record.term),
    lastDurationMs: record.leaseDurationMs,
    endsAtMs: record.released ? 0 : record.leaseDurationMs,
    granted: isGrant ? [...server.granted, record.attempt] : server.granted,
  }
  return changed(scene, next, setup)
}

function changed(scene: ModelState, next: ModelServer, setup: Setup): ModelState {
  const past =
    setup.faults.has('watch-replay') || setup.faults.has('relay-watch-replay') ? scene.server.record : undefined
  let { messages } = scene
  for (const [who, { watching }] of scene.slots.entries()) {
    if (watching) messages = withEvent(messages, eventFor(who, next.record))
  }
  for (const [via, { life }] of scene.relays.entries()) {
    const isWatching = setup.between?.watch && life !== 'down'
    if (isWatching) messages = withEvent(messages, eventFor(scene.slots.length + via, next.record))
  }
  return { ...scene, server: { ...next, past }, messages }
}

/** Keeps only the oldest and the newest pending event of a watch. A store may skip those in between. */
export function withEvent(messages: readonly ModelMessage[], event: ModelMessage): readonly ModelMessage[] {
  const waiting = messages.filter(({ kind, who }) => kind === 'event' && who === event.who)
  const last = waiting.length > 1 ? waiting.at(-1) : undefined
  return [...messages.filter((message) => message !== last), event]
}

/** Returns the event that an elector's watch shows. */
export function eventFor(who: number, record: LeaseRecord | undefined): ModelMessage {
  return { kind: 'event', who, id: 0, record, orphan: false, late: false, ageTicks: 0 }
}
