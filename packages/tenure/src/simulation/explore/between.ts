/** What may stand between electors and their store: relays, which pass calls on and remember what they see. A plug. */
import type { Fields } from '../../election-fields.ts'
import type { Sight } from '../../election-state.ts'
import type { AcquireClaim, LeaseRecord, Outcome } from '../../lease-store.ts'
import type { Course } from './course.ts'
import { eventFor, handle, withEvent } from './server.ts'
import type { Message, RelaySlot, Reply, Scene, Setup } from './scene.ts'

/** What an event shows: it may report the past, or come twice. */
export interface Shown {
  readonly record: LeaseRecord | undefined
  readonly highestTerm?: number | undefined
}

/** How relays decide, as functions of what they remember. Their clocks say 0: all times are relative to now. */
export interface Between<Memory extends object = object> {
  /** How many relays there are. */
  readonly relays: number
  /** For each elector, those that may pass its calls on. */
  readonly relaysOf: readonly (readonly number[])[]
  /** Whether relays watch the store. */
  readonly watch: boolean
  readonly blank: Memory
  /** An acquire as it is passed on now. */
  passOn(memory: Memory, claim: AcquireClaim): AcquireClaim
  /** What to ask instead after a refusal of what was passed on, if anything. */
  again(asked: AcquireClaim, passed: AcquireClaim, outcome: Outcome): AcquireClaim | undefined
  /** The store has answered. */
  take(memory: Memory, reply: Reply): Memory
  /** A watch of the store, or of the cluster's resource, shows something. */
  hear(memory: Memory, shown: Shown): Memory
  /** The outcome as the elector gets it. */
  tell(memory: Memory, outcome: Outcome): Outcome
  /** What others of the same cluster, and a successor, are shown of it. */
  show(memory: Memory): Shown | undefined
  /** A memory, field by field, without the versions that are only remembered: `past`. */
  memoryWith(fields: Fields, memory: Memory): Memory
  past(memory: Memory): readonly Sight[]
  withPast(memory: Memory, past: readonly Sight[]): Memory
}

/** The relays that run and can take a request of an elector. */
export function relaysFor(scene: Scene, { between }: Setup, who: number): readonly number[] {
  return (between?.relaysOf[who] ?? []).filter((via) => scene.relays[via]?.life === 'running')
}

/** A relay begins, with what the resource of its cluster shows, or with nothing. */
export function begin(scene: Scene, via: number, between: Between, isShown: boolean): Scene {
  const memory = isShown ? relayOf(scene, via).memory : between.blank
  const begun = withRelay(scene, via, { life: 'running', memory })
  return between.watch ? watched(begun, via) : begun
}

/** Relays that watch have opened their watches. */
export function withWatches(scene: Scene, { between }: Setup): Scene {
  return between?.watch ? scene.relays.reduce((next, _, via) => watched(next, via), scene) : scene
}

/** A relay's watch of the store is opened: it shows what is there. */
export function watched(scene: Scene, via: number): Scene {
  const who = scene.slots.length + via
  const messages = scene.messages.filter((message) => message.who !== who)
  return { ...scene, messages: [...messages, eventFor(who, scene.server.record)] }
}

/** Nothing is left of a relay. What it asked the store arrives all the same; what it was asked waits for another one. */
export function crash(scene: Scene, via: number, between: Between): Scene {
  const gone = between.relays
  const event = scene.slots.length + via
  const messages = scene.messages.flatMap((message): Message[] => {
    if (message.who === event) return []
    if (message.via !== via) return [message]
    const rest = message.kind === 'request' ? [{ ...message, via: gone, orphan: true }] : []
    return message.orphan ? rest : [...rest, asked(message)]
  })
  const shown = between.show(relayOf(scene, via).memory)
  // What its resource shows is new to the next one: it counts from its start, and no time passes for it until then.
  const memory = shown ? between.hear(between.blank, shown) : between.blank
  return withRelay({ ...scene, messages }, via, { life: 'down', memory })
}

/** What a relay works with. */
export interface RelayTools {
  readonly setup: Setup
  readonly course: Course
  readonly between: Between
}

/** Something reaches a relay. */
export function arriveAtRelay(scene: Scene, message: Message, via: number, tools: RelayTools): Scene {
  if (message.kind === 'request') return carryOut(scene, passedOn(scene, message, via, tools.between), tools)
  if (message.kind === 'reply') return takeAnswer(scene, message, tools)
  const { record, highestTerm } = message
  const relay = relayOf(scene, via)
  return withRelay(scene, via, { ...relay, memory: tools.between.hear(relay.memory, { record, highestTerm }) })
}

/** A request as a relay passes it on now. */
export function passedOn(scene: Scene, message: Message, via: number, between: Between): Message {
  const { claim, verb } = message
  const acquire = verb === 'acquire' ? (claim as AcquireClaim) : undefined
  const passed = acquire ? between.passOn(relayOf(scene, via).memory, acquire) : claim
  return { ...message, via, claim: passed, own: acquire?.expiredVersion, late: false, ageTicks: 0 }
}

/** What was passed on is carried out, and its answer taken, in one step: what comes in between is a fault. */
export function carryOut(scene: Scene, passed: Message, tools: RelayTools, swapIsLost = false): Scene {
  const { scene: after, reply } = handle(scene, passed, tools.setup, tools.course, swapIsLost)
  return takeAnswer(after, { ...passed, kind: 'reply', reply }, tools)
}

/** What a relay was asked: it is to be passed on again, within a tick. */
export function asked({ who, id, verb, claim, own, orphan }: Message): Message {
  const claimed = verb === 'acquire' ? asClaimed(claim as AcquireClaim, own) : claim
  return { kind: 'request', who, id, verb, claim: claimed, orphan, late: false, ageTicks: -1 }
}

function asClaimed(passed: AcquireClaim, own: string | undefined): AcquireClaim {
  const { expiredVersion: _, ...claim } = passed
  return own === undefined ? claim : { ...claim, expiredVersion: own }
}

/** The store has answered a relay: it takes note, and asks once more or tells the elector. */
function takeAnswer(scene: Scene, message: Message, tools: RelayTools): Scene {
  const { via = 0, who, id, verb, claim, own, orphan, reply = {} } = message
  const { between } = tools
  const relay = relayOf(scene, via)
  const { outcome } = reply
  const memory = between.take(relay.memory, reply)
  const noted = withRelay(scene, via, { ...relay, memory })
  const passed = verb === 'acquire' ? (claim as AcquireClaim) : undefined
  const again = passed && outcome && between.again(asClaimed(passed, own), passed, outcome)
  if (again) return carryOut(noted, { ...message, kind: 'request', reply: undefined, claim: again }, tools)
  const messages = toOthers(noted, via, between)
  if (orphan) return { ...noted, messages }
  const told = outcome ? { outcome: between.tell(memory, outcome) } : reply
  const next: Message = { kind: 'reply', who, id, verb, reply: told, orphan, late: false, ageTicks: 0 }
  return { ...noted, messages: [...messages, next] }
}

/** What one relay writes into the resource of its cluster, the others see. */
function toOthers(scene: Scene, via: number, between: Between): readonly Message[] {
  const shown = between.show(relayOf(scene, via).memory)
  if (!shown) return scene.messages
  const others = new Set(between.relaysOf.filter((relays) => relays.includes(via)).flat())
  let { messages } = scene
  for (const other of others) {
    if (other === via || scene.relays[other]?.life === 'down') continue
    const event = eventFor(scene.slots.length + other, shown.record)
    messages = withEvent(messages, { ...event, highestTerm: shown.highestTerm })
  }
  return messages
}

function relayOf(scene: Scene, via: number): RelaySlot {
  const relay = scene.relays[via]
  if (!relay) throw new RangeError(`There is no relay ${via}.`)
  return relay
}

export function withRelay(scene: Scene, via: number, relay: RelaySlot): Scene {
  return { ...scene, relays: scene.relays.with(via, relay) }
}
