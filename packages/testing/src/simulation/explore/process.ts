/** One elector of a model state, run by the real driver. */
import { Driver, type Effect, type ElectionState, initialState, type PreferenceAnswer } from 'tenure/internal'
import type { TransitionChecker } from './checker.ts'
import { nameOf } from './fields.ts'
import { ModelGuard, pipeEnded } from './guard-model.ts'
import { eventFor } from './server.ts'
import {
  down,
  isProcess,
  type ModelMessage,
  type ModelProcess,
  type ModelState,
  type Setup,
  type ModelSlot,
} from './model-state.ts'

/**
 * Runs one action of a process. `chance` returns each random number. `lands`: the call whose answer or failure arrives.
 * Nothing happens if that call is no longer pending.
 */
export function act(
  scene: ModelState,
  who: number,
  {
    setup,
    course,
    chance,
  }: { readonly setup: Setup; readonly course: TransitionChecker; readonly chance: () => number },
  does: (driver: Driver, call: number, guard: ModelGuard | undefined) => void,
  lands?: number,
): ModelState {
  const before = scene.slots[who]
  const settings = setup.settings[who]
  if (!before || !settings) return scene
  const slot: MutableProcess = isProcess(before)
    ? { ...before }
    : { ...down, life: 'running', state: initialState(settings), wakeAtMs: undefined, flight: undefined }
  if (setup.isGuarded && !isProcess(before)) slot.guarded = []
  const guard = slot.guarded && new ModelGuard(slot.guarded)
  let { names, messages } = scene
  const name = settings.identity

  const perform = (effect: Effect): void => {
    slot.state = driver.state
    course.reports(slot, effect, scene.strain)
    switch (effect.type) {
      case 'call': {
        const { call } = effect
        course.sends(slot, call, slot.boundAtMs !== undefined)
        const claim = 'claim' in call ? call.claim : undefined
        course.tell(name, () => `sends ${call.verb}${claim ? describe(claim) : ''}`)
        slot.boundAtMs = call.boundMs
        guard?.sends(call, driver.state)
        const sent = { who, id: call.id, verb: call.verb, claim, orphan: false, late: false, ageTicks: 0 }
        // A resource holds one request of each elector, so a new request replaces one that no relay has forwarded yet.
        const isReplaced = (one: ModelMessage) => one.kind === 'request' && one.who === who && one.via === undefined
        if (setup.between) messages = messages.filter((one) => one.late || one.orphan || !isReplaced(one))
        messages = [...messages, { kind: 'request', ...sent }]
        return
      }
      case 'cancel':
        slot.boundAtMs = undefined
        return
      case 'watch':
        slot.watching = effect.open
        messages = effect.open ? [...messages, eventFor(who, scene.server.record)] : withoutEvents(messages, who)
        return
      case 'elected':
        course.tell(name, () => `leads term ${effect.record.term}`)
        slot.open = true
        slot.ledTerm = effect.record.term
        // A process that is elected while it is unfit has its whole time to recover.
        if (slot.unfitBy) slot.unfitSinceMs = 0
        // The first elector works while it leads. The others start work when they learn that their leadership has
        // ended.
        if (who === 0) work()
        return
      case 'ended':
        course.tell(name, () => `no longer leads: ${effect.reason}`)
        if (who === 0) return
        // Another listener may call back into the elector first.
        driver.dispatch({ type: 'wake' })
        return work()
      case 'renewed':
        // The renewal clears the disturbance, unless the record was deleted while the answer was in flight or the
        // process was paused. In those cases the next call has a longer timeout.
        if (effect.record.version === scene.server.record?.version && isQuick(driver.state, setup))
          slot.disturbed = false
        return
      case 'stepped-down':
        slot.toldToYield = false
        return
      case 'lost':
        course.tell(name, () => `reports the loss of term ${effect.term}`)
        slot.open = false
        return
      case 'stopped':
        course.tell(name, () => 'has stopped')
        return
      case 'error':
        course.tell(name, () => `reports ${String(effect.error)}`)
    }
  }
  const work = (): void => {
    slot.work += 1
    driver.dispatch({ type: 'work', pending: slot.work })
  }
  const ask = (): PreferenceAnswer => ({
    eligible: slot.unfitBy !== 'ineligible',
    priority: settings.priority,
    progressedAtMs: slot.unfitBy === 'no-progress' ? slot.unfitSinceMs : 0,
  })
  const moment = { nowMs: 0, sleptMs: 0, fresh: () => nameOf(++names), chance, ask, wallMs: noWallClock }
  const settled = () => guard?.stepped(driver.state)
  const driver = new Driver({ moment: () => moment, perform, wakeAt: () => undefined, settled }, slot)
  if (lands !== undefined) {
    if (!driver.lands(lands)) return scene
    slot.boundAtMs = undefined
  }
  does(driver, lands ?? 0, guard)
  slot.guarded = guard?.attempts
  const { state, wakeAtMs, flight } = driver
  if (state.grant?.record.term !== slot.ledTerm) slot.gaveBack = false
  if (isProcess(before)) course.believes(before.state, state)
  if (state.phase === 'stopped' && slot.watching) course.violate('I11', `${name} stopped and left its watch open`)
  const after: ModelSlot = state.phase === 'stopped' ? down : Object.assign(slot, { state, wakeAtMs, flight })
  const slots = scene.slots.with(who, after)
  const rest = state.phase === 'stopped' ? abandoned(messages, who) : messages
  // Once the elector has stopped, the process may exit at any time.
  const left = state.phase === 'stopped' ? pipeEnded(slot.guarded, 'gone') : []
  return { ...scene, slots, messages: rest, names, pursuits: [...scene.pursuits, ...left] }
}

/** Only an elector with a limited wait reads the wall clock. For all others, exploration shows that none does. */
function noWallClock(): never {
  throw new Error('An elector that waits without a limit read the wall clock.')
}

function isQuick({ answeredInMs }: ElectionState, { delayTicks, tickMs }: Setup): boolean {
  return answeredInMs <= 2 * delayTicks * tickMs
}

/** The mutable state of a process during an action. */
type MutableProcess = { -readonly [K in keyof ModelProcess]: ModelProcess[K] }

/** Marks a piece of work as settled. */
export function settle(scene: ModelState, who: number): ModelState {
  const slot = scene.slots[who]
  return slot ? { ...scene, slots: scene.slots.with(who, { ...slot, work: slot.work - 1 }) } : scene
}

/** Drops answers that nobody waits for. Requests in flight still arrive. */
export function abandoned(messages: readonly ModelMessage[], who: number): readonly ModelMessage[] {
  return messages.flatMap((message) => {
    if (message.who !== who) return [message]
    return message.kind === 'request' ? [{ ...message, orphan: true }] : []
  })
}

export function withoutEvents(messages: readonly ModelMessage[], who: number): readonly ModelMessage[] {
  return messages.filter(({ kind, who: other }) => kind !== 'event' || other !== who)
}

function describe(claim: {
  readonly afterTerm?: number
  readonly term?: number
  readonly expiredVersion?: string
}): string {
  if (claim.term !== undefined) return ` of term ${claim.term}`
  const over = claim.expiredVersion === undefined ? '' : `, over the expired version "${claim.expiredVersion}"`
  return ` after term ${claim.afterTerm}${over}`
}
