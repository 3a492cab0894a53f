/** What relays do and suffer besides passing calls on, where some stand between electors and their store. */
import { asked, begin, carryOut, crash, passedOn, relaysFor, watched, withRelay } from './between.ts'
import type { Move, Tools } from './moves.ts'
import type { Fault, Message, Scene, Setup } from './scene.ts'
import { eventFor, handle } from './server.ts'

/** Relays are started, and go on. */
export function relayArrivals(scene: Scene, setup: Setup): Move[] {
  const { between } = setup
  return scene.relays.flatMap((relay, via): Move[] => {
    if (!between || relay.life === 'running') return []
    const move = (what: string, run: () => Scene): Move => {
      return { who: nameIn(setup, scene.slots.length + via), what: () => what, ticks: 0, run }
    }
    if (relay.life !== 'down') return [move('goes on', () => withRelay(scene, via, { ...relay, life: 'running' }))]
    return [
      move('starts', () => begin(scene, via, between, true)),
      move('starts, and its resource is new', () => begin(scene, via, between, false)),
    ]
  })
}

type AddFault = (fault: Fault, who: string, what: () => string, run: (next: Scene, tools: Tools) => Scene) => void

/** What may go wrong with relays. */
export function addRelayFaults(scene: Scene, setup: Setup, add: AddFault): void {
  const { between } = setup
  if (!between) return
  for (const [via, relay] of scene.relays.entries()) {
    const who = scene.slots.length + via
    const name = nameIn(setup, who)
    const live = (life: 'stalled' | 'asleep') => (next: Scene) => withRelay(next, via, { ...relay, life })
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
      () => 'FAULT: its watch ends, and another one begins',
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

/** What may go wrong while a relay passes a request on. */
export function addPassingFaults(scene: Scene, index: number, setup: Setup, add: AddFault): void {
  const { between } = setup
  const message = scene.messages[index]
  if (!between || message?.kind !== 'request' || message.via !== undefined) return
  const { who, verb, claim } = message
  for (const via of relaysFor(scene, setup, who)) {
    const name = nameIn(setup, scene.slots.length + via)
    const text = (what: string) => () => `FAULT: passes ${nameIn(setup, who)}'s ${verb} on, and ${what}`
    const pass = (next: Scene) => {
      const rest = { ...next, messages: next.messages.toSpliced(index, 1) }
      return { rest, passed: passedOn(rest, message, via, between) }
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

function withMessage(scene: Scene, message: Message): Scene {
  return { ...scene, messages: [...scene.messages, message] }
}

/** Electors, then relays, are counted from 0, and the store is -1. */
export function nameIn({ settings }: Setup, who: number): string {
  if (who < 0) return 'store'
  return settings[who]?.identity ?? `relay ${who - settings.length + 1}`
}
