/**
 * The relay model: optional relays between electors and their store, which forward calls and remember their
 * observations.
 */
import type { AcquireClaim, LeaseRecord, Outcome } from 'tenure'
import type { FieldVisitor, ObservedVersion } from 'tenure/internal'
import type { TransitionChecker } from './checker.ts'
import { eventFor, handle, withEvent } from './server.ts'
import type { ModelMessage, RelaySlot, ModelReply, ModelState, Setup } from './model-state.ts'

/** The content of an event. An event may be stale or duplicated. */
export interface ShownRequest {
  readonly record: LeaseRecord | undefined
  readonly highestTerm?: number | undefined
  /** The last known lease duration, which a status keeps when the record is deleted. */
  readonly durationMs?: number | undefined
}

/** The decisions of relays, as functions of their memory. A relay's clock reads 0, so all times are relative to now. */
export interface RelayModel<Memory extends object = object> {
  /** How many relays there are. */
  readonly relays: number
  /** The relays that may forward each elector's calls. */
  readonly relaysOf: readonly (readonly number[])[]
  /** Whether relays watch the store. */
  readonly watch: boolean
  readonly blank: Memory
  /** Returns the acquire that the relay sends to the store now. */
  passOn(memory: Memory, claim: AcquireClaim): AcquireClaim
  /** Returns the acquire to send after the forwarded one was refused, or undefined to forward the refusal. */
  again(asked: AcquireClaim, passed: AcquireClaim, outcome: Outcome): AcquireClaim | undefined
  /** Returns the memory after an answer from the store. */
  take(memory: Memory, reply: ModelReply): Memory
  /** Returns the memory after an event from the store's watch or from the cluster's resource. */
  hear(memory: Memory, shown: ShownRequest): Memory
  /** Returns the outcome that the elector gets. */
  tell(memory: Memory, outcome: Outcome): Outcome
  /** Returns the part of this memory that other relays of the cluster, and a successor, can see. */
  show(memory: Memory): ShownRequest | undefined
  /** Maps a memory field by field, without the observed versions in `past`. */
  memoryWith(fields: FieldVisitor, memory: Memory): Memory
  past(memory: Memory): readonly ObservedVersion[]
  withPast(memory: Memory, past: readonly ObservedVersion[]): Memory
}

/** Returns the running relays that can accept a request from an elector. */
export function relaysFor(scene: ModelState, { between }: Setup, who: number): readonly number[] {
  return (between?.relaysOf[who] ?? []).filter((via) => scene.relays[via]?.life === 'running')
}

/** Starts a relay with the state that its cluster's resource shows, or with no state. */
export function begin(scene: ModelState, via: number, between: RelayModel, isShown: boolean): ModelState {
  const memory = isShown ? relayOf(scene, via).memory : between.blank
  const begun = withRelay(scene, via, { life: 'running', memory })
  return between.watch ? watched(begun, via) : begun
}

/** Opens the watches of all relays that watch. */
export function withWatches(scene: ModelState, { between }: Setup): ModelState {
  return between?.watch ? scene.relays.reduce((next, _, via) => watched(next, via), scene) : scene
}

/** Opens a relay's watch of the store, which shows the current record first. */
export function watched(scene: ModelState, via: number): ModelState {
  const who = scene.slots.length + via
  const messages = scene.messages.filter((message) => message.who !== who)
  return { ...scene, messages: [...messages, eventFor(who, scene.server.record)] }
}

/** Removes a relay. Its requests to the store still arrive. Requests to it wait for another relay. */
export function crash(scene: ModelState, via: number, between: RelayModel): ModelState {
  const gone = between.relays
  const event = scene.slots.length + via
  const messages = scene.messages.flatMap((message): ModelMessage[] => {
    if (message.who === event) return []
    if (message.via !== via) return [message]
    const rest = message.kind === 'request' ? [{ ...message, via: gone, orphan: true }] : []
    return message.orphan ? rest : [...rest, asked(message)]
  })
  const shown = between.show(relayOf(scene, via).memory)
  // The next relay counts its observations from its own start. Earlier time does not count for it.
  const memory = shown ? between.hear(between.blank, shown) : between.blank
  return withRelay({ ...scene, messages }, via, { life: 'down', memory })
}

/** The arguments that every step of a relay needs. */
export interface RelayTools {
  readonly setup: Setup
  readonly course: TransitionChecker
  readonly between: RelayModel
}

/** Delivers a message to a relay. */
export function arriveAtRelay(scene: ModelState, message: ModelMessage, via: number, tools: RelayTools): ModelState {
  if (message.kind === 'request') return carryOut(scene, relayedRequest(scene, message, via, tools.between), tools)
  if (message.kind === 'reply') return takeAnswer(scene, message, tools)
  const { record, highestTerm } = message
  const relay = relayOf(scene, via)
  return withRelay(scene, via, { ...relay, memory: tools.between.hear(relay.memory, { record, highestTerm }) })
}

/** Returns a request as a relay forwards it now. */
export function relayedRequest(
  scene: ModelState,
  message: ModelMessage,
  via: number,
  between: RelayModel,
): ModelMessage {
  const { claim, verb } = message
  const acquire = verb === 'acquire' ? (claim as AcquireClaim) : undefined
  const passed = acquire ? between.passOn(relayOf(scene, via).memory, acquire) : claim
  return { ...message, via, claim: passed, own: acquire?.expiredVersion, late: false, ageTicks: 0 }
}

/** Applies a forwarded request and handles its answer in one step. Only a fault can come between the two. */
export function carryOut(scene: ModelState, passed: ModelMessage, tools: RelayTools, swapIsLost = false): ModelState {
  const { scene: after, reply } = handle(scene, passed, tools.setup, tools.course, swapIsLost)
  return takeAnswer(after, { ...passed, kind: 'reply', reply }, tools)
}

/** Returns the original request of a relay, to be forwarded again within a tick. */
export function asked({ who, id, verb, claim, own, orphan }: ModelMessage): ModelMessage {
  const claimed = verb === 'acquire' ? asClaimed(claim as AcquireClaim, own) : claim
  return { kind: 'request', who, id, verb, claim: claimed, orphan, late: false, ageTicks: -1 }
}

function asClaimed(passed: AcquireClaim, own: string | undefined): AcquireClaim {
  const { expiredVersion: _, ...claim } = passed
  return own === undefined ? claim : { ...claim, expiredVersion: own }
}

/** Handles the store's answer: the relay remembers it, then sends another request or answers the elector. */
function takeAnswer(scene: ModelState, message: ModelMessage, tools: RelayTools): ModelState {
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
  const next: ModelMessage = { kind: 'reply', who, id, verb, reply: told, orphan, late: false, ageTicks: 0 }
  return { ...noted, messages: [...messages, next] }
}

/** Adds the messages that show the other relays what this relay writes into the resource of its cluster. */
function toOthers(scene: ModelState, via: number, between: RelayModel): readonly ModelMessage[] {
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

function relayOf(scene: ModelState, via: number): RelaySlot {
  const relay = scene.relays[via]
  if (!relay) throw new RangeError(`There is no relay ${via}.`)
  return relay
}

export function withRelay(scene: ModelState, via: number, relay: RelaySlot): ModelState {
  return { ...scene, relays: scene.relays.with(via, relay) }
}
