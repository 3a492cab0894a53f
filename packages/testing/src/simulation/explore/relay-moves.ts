/** The steps and faults of relays, except for forwarding calls. */
import { asked, begin, carryOut, crash, relayedRequest, relaysFor, watched, withRelay } from './relay-model.ts'
import type { Move, Tools } from './moves.ts'
import type { Fault, ModelMessage, ModelState, Setup } from './model-state.ts'
import { eventFor, handle } from './server.ts'

/** Returns the steps in which relays start or resume. */
export function relayArrivals(scene: ModelState, setup: Setup): Move[] {
  const { between } = setup
  return scene.relays.flatMap((relay, via): Move[] => {
    if (!between || relay.life === 'running') return []
    const move = (what: string, run: () => ModelState): Move => {
      return { who: nameIn(setup, scene.slots.length + via), what: () => what, ticks: 0, run }
    }
    if (relay.life !== 'down') return [move('resumes', () => withRelay(scene, via, { ...relay, life: 'running' }))]
    return [
      move('starts', () => begin(scene, via, between, true)),
      move('starts with a new resource', () => begin(scene, via, between, false)),
    ]
  })
}

type AddFault = (
  fault: Fault,
  who: string,
  what: () => string,
  run: (next: ModelState, tools: Tools) => ModelState,
) => void

/** Adds the faults of relays. */
export function addRelayFaults(scene: ModelState, setup: Setup, add: AddFault): void {
  const { between } = setup
  if (!between) return
  for (const [via, relay] of scene.relays.entries()) {
    const who = scene.slots.length + via
    const name = nameIn(setup, who)
    const live = (life: 'stalled' | 'asleep') => (next: ModelState) => withRelay(next, via, { ...relay, life })
    if (relay.life !== 'down') {
      add(
        'relay-crash',
        name,
        () => 'FAULT: crashes',
        (next) => crash(next, via, between),
      )
    }
    if (relay.life !== 'running') continue
    add('relay-stall', name, () => 'FAULT: stalls', live('stalled'))
    add('relay-sleep', name, () => 'FAULT: sleeps', live('asleep'))
    if (!between.watch) continue
    add(
      'relay-watch-end',
      name,
      () => 'FAULT: its watch ends and is opened again',
      (next) => watched(next, via),
    )
    add(
      'relay-watch-replay',
      name,
      () => 'FAULT: its watch shows the past again',
      (next) => ({
        ...next,
        messages: [...next.messages, eventFor(who, next.server.past)],
      }),
    )
  }
}

/** Adds the faults that can occur while a relay forwards a request. */
export function addPassingFaults(scene: ModelState, index: number, setup: Setup, add: AddFault): void {
  const { between } = setup
  const message = scene.messages[index]
  if (!between || message?.kind !== 'request' || message.via !== undefined) return
  const { who, verb, claim } = message
  for (const via of relaysFor(scene, setup, who)) {
    const name = nameIn(setup, scene.slots.length + via)
    const text = (what: string) => () => `FAULT: forwards ${nameIn(setup, who)}'s ${verb}, and ${what}`
    const pass = (next: ModelState) => {
      const rest = { ...next, messages: next.messages.toSpliced(index, 1) }
      return { rest, passed: relayedRequest(rest, message, via, between) }
    }
    add('late', name, text('the call is delayed'), (next) => {
      const { rest, passed } = pass(next)
      return withMessage(rest, { ...passed, late: true })
    })
    add('late', name, text('the answer is delayed'), (next, { course }) => {
      const { rest, passed } = pass(next)
      const { scene: after, reply } = handle(rest, passed, setup, course)
      return withMessage(after, { ...passed, kind: 'reply', reply, late: true })
    })
    add('lost', name, text('the answer is lost'), (next, { course }) => {
      const { rest, passed } = pass(next)
      return withMessage(handle(rest, passed, setup, course).scene, asked(passed))
    })
    add('relay-crash', name, text('crashes'), (next) => {
      const { rest, passed } = pass(next)
      return crash(withMessage(rest, passed), via, between)
    })
    if (!claim) continue
    add('lost-swap', name, text('it loses against another write'), (next, { course }) => {
      const { rest, passed } = pass(next)
      return carryOut(rest, passed, { setup, course, between }, true)
    })
  }
}

function withMessage(scene: ModelState, message: ModelMessage): ModelState {
  return { ...scene, messages: [...scene.messages, message] }
}

/** Electors are numbered from 0, relays follow, and the store is -1. */
export function nameIn({ settings }: Setup, who: number): string {
  if (who < 0) return 'store'
  return settings[who]?.identity ?? `relay ${who - settings.length + 1}`
}
