/**
 * Encodes a model state as bytes. States that behave alike have the same bytes: times are relative to now, names are
 * numbered in the order in which they appear, terms count from the lowest known one, and fields that no decision reads
 * are omitted.
 *
 * Lists of observed versions drop their oldest entry when they are full. An entry whose name appears nowhere else can
 * never be matched again. Such entries are omitted up to the first one that can be matched, because when an entry is
 * dropped depends only on newer entries. These lists are therefore written last, when all names that appear elsewhere
 * are known.
 */
import { absentVersion, type HeldClaim } from 'tenure'
import {
  type Memory,
  memoryWith,
  type ObservedVersion,
  type OwnAttempt,
  priorities,
  type ElectionSettings,
  sightWith,
} from 'tenure/internal'
import { dead, StateFieldReader, FieldWriter, versionOf } from './fields.ts'
import { guardedWith, rememberedAttempt, rememberedAttempts } from './guard-model.ts'
import { heldWith, messageWith, serverWith, slotWith } from './model-state-fields.ts'
import {
  leaseDurationMs,
  type ModelMessage,
  type RelaySlot,
  type ModelState,
  type Setup,
  type ModelSlot,
} from './model-state.ts'

/** Encodes and decodes model states. */
export class Encoding {
  readonly #settings: readonly ElectionSettings[]
  readonly #trueTickMs: number
  readonly #tickMs: readonly number[]
  readonly #ownClock: boolean
  readonly #delayTicks: number
  readonly #between: Setup['between']
  readonly #isGuarded: boolean
  readonly #writer: FieldWriter
  readonly #reader: StateFieldReader

  constructor(setup: Setup) {
    const { settings, tickMs, ticksMs, expiry, delayTicks, between, isGuarded = false } = setup
    this.#settings = settings
    this.#trueTickMs = tickMs
    this.#tickMs = ticksMs
    this.#ownClock = expiry === 'own-clock'
    this.#delayTicks = delayTicks
    this.#between = between
    this.#isGuarded = isGuarded
    const readsFirst = mayReadFirst(setup)
    this.#writer = new FieldWriter(longestAgeMs(setup), readsFirst)
    this.#reader = new StateFieldReader(this.#writer.words, readsFirst)
  }

  /** Encodes a state as it is `ticks` later. The next call overwrites the bytes. */
  write(scene: ModelState, ticks: number): Uint8Array {
    const { server, slots, budget } = scene
    const writer = this.#writer
    writer.begin()
    writer.small(budget)
    writer.small(scene.strain * 2 + Number(scene.dawn))
    writer.at(this.#trueTickMs, ticks * this.#trueTickMs, 0, undefined)
    serverWith(writer, server, { ownClock: this.#ownClock, past: budget > 0 })
    for (let who = 0; who < slots.length; who += 1) slotWith(writer, this.#atSlot(slots, who, ticks))
    for (const relay of scene.relays) {
      this.#atRelay(relay, ticks)
      writer.value(relay.life)
      this.#between?.memoryWith(writer, relay.memory)
    }
    const messages = inPlace(scene.messages)
    writer.small(messages.length)
    for (const message of messages) {
      writer.flight = message.orphan ? undefined : slots[message.who]?.flight
      const ageTicks = message.late ? 0 : Math.min(message.ageTicks + ticks, this.#delayTicks)
      messageWith(writer, message, ageTicks)
    }
    if (this.#isGuarded)
      writer.each(scene.pursuits, (fields, pursuit) => (fields.maybe(pursuit.claim, heldWith), pursuit))
    const granted = server.granted.filter((name) => writer.isAttempt(name))
    writer.small(granted.length)
    for (const name of granted) writer.attempt(name)
    for (let who = 0; who < slots.length; who += 1) {
      const { state } = this.#atSlot(slots, who, ticks)
      if (state) memoryWith(writer, remembered(state, writer))
    }
    if (this.#isGuarded) {
      for (const { guarded } of slots) {
        const known = guarded && rememberedAttempts(guarded, writer)
        writer.maybe(known, (fields, attempts) => fields.each(attempts, guardedWith))
      }
      for (const { attempt } of scene.pursuits) guardedWith(writer, rememberedAttempt(attempt, writer))
    }
    for (const relay of scene.relays) {
      this.#atRelay(relay, ticks)
      if (this.#between) writer.each(sights(this.#between.past(relay.memory), writer), sightWith)
    }
    return writer.end()
  }

  #atSlot(slots: readonly ModelSlot[], who: number, ticks: number): ModelSlot {
    const slot = slots[who] as ModelSlot
    const unitMs = this.#tickMs[who] ?? this.#trueTickMs
    const passedMs = ticks * unitMs
    this.#writer.at(unitMs, slot.life === 'asleep' ? 0 : passedMs, passedMs, slot.flight)
    return slot
  }

  #atRelay({ life }: RelaySlot, ticks: number): void {
    const isStill = life === 'asleep' || life === 'down'
    this.#writer.at(this.#trueTickMs, isStill ? 0 : ticks * this.#trueTickMs, 0, undefined)
  }

  read(encoded: Uint8Array, offset: number): ModelState {
    const reader = this.#reader
    const between = this.#between
    reader.begin(encoded, offset)
    const [budget, flags] = [reader.small(), reader.small()]
    reader.unitMs = this.#trueTickMs
    const server = serverWith(reader, reader.anything, { ownClock: this.#ownClock, past: budget > 0 })
    const slots = this.#settings.map((_, who) => {
      reader.unitMs = this.#tickMs[who] ?? this.#trueTickMs
      return slotWith(reader, reader.anything)
    })
    reader.unitMs = this.#trueTickMs
    const begun = Array.from({ length: between?.relays ?? 0 }, () => ({
      life: reader.value<RelaySlot['life']>('down'),
      memory: between?.memoryWith(reader, reader.anything) ?? {},
    }))
    const messages = Array.from({ length: reader.small() }, () => messageWith(reader, reader.anything, 0))
    const claims = this.#isGuarded
      ? reader.each([], (fields) => ({ claim: fields.maybe<HeldClaim>(undefined, heldWith) }))
      : []
    const granted = Array.from({ length: reader.small() }, () => reader.attempt(''))
    for (const [who, { state }] of slots.entries()) {
      reader.unitMs = this.#tickMs[who] ?? this.#trueTickMs
      if (state) Object.assign(state, memoryWith(reader, reader.anything), { settings: this.#settings[who] })
    }
    reader.unitMs = this.#trueTickMs
    if (this.#isGuarded) {
      for (const slot of slots) {
        const guarded = reader.maybe(reader.anything, (fields) => fields.each([], guardedWith))
        Object.assign(slot, { guarded })
      }
    }
    const pursuits = claims.map(({ claim }) => ({ claim, attempt: guardedWith(reader, reader.anything) }))
    const relays = begun.map(({ life, memory }): RelaySlot => {
      return { life, memory: between?.withPast(memory, reader.each([], sightWith)) ?? memory }
    })
    return {
      server: { ...server, granted },
      slots,
      relays,
      messages,
      pursuits,
      budget,
      strain: flags >> 1,
      dawn: (flags & 1) === 1,
      names: reader.names,
    }
  }
}

/**
 * Returns the age of the oldest moment that matters: a lease and a third, two jittered leases more for a standby that
 * polls the store, or a lease and the longest delay of a candidate that leaves the lease to others.
 */
function longestAgeMs({ settings, jitter, newerGeneration = false }: Setup): number {
  const delaysMs = settings.map(({ asks, priority, canWatch, retryIntervalMs }) => {
    const steps = (asks ? priorities.length - 1 : priorities.indexOf(priority)) + (newerGeneration ? 1 : 0)
    return steps * retryIntervalMs * (canWatch ? 1 : 2)
  })
  return leaseDurationMs * (1 + 2 * Math.max(...jitter)) + Math.max(leaseDurationMs / 3, ...delaysMs)
}

/** Returns whether a campaign may have to begin with a read: because of its store, or because its priority is not normal. */
function mayReadFirst({ settings, newerGeneration = false }: Setup): boolean {
  // An elector that is asked may step down, and has the lowest priority for a while.
  return (
    newerGeneration || settings.some(({ readsFirst, asks, priority }) => readsFirst || asks || priority !== 'normal')
  )
}

/** Returns the memory of a state without entries that can never be matched again. */
function remembered({ own, seen, confirmed }: Memory, writer: FieldWriter): Memory {
  const isWriteId = (name: string) => writer.isWriteId(name)
  const writeIds = (list: readonly string[]) => fromFirst(list, isWriteId).map((one) => (isWriteId(one) ? one : dead))
  const isOwn = ({ id }: OwnAttempt) => writer.isAttempt(id)
  return {
    own: fromFirst(own, isOwn).map((one): OwnAttempt =>
      isOwn(one)
        ? { id: one.id, seen: writeIds(one.seen), sent: writeIds(one.sent) }
        : { id: dead, seen: [], sent: [] },
    ),
    seen: sights(seen, writer),
    confirmed: confirmed && sightOf(confirmed, writer),
  }
}

function sights(seen: readonly ObservedVersion[], writer: FieldWriter): readonly ObservedVersion[] {
  return fromFirst(seen, (one) => isSeen(one, writer)).map((one) => sightOf(one, writer))
}

function sightOf(one: ObservedVersion, writer: FieldWriter): ObservedVersion {
  return isSeen(one, writer) ? one : { key: dead, atMs: writer.nowMs }
}

/** Returns whether a version can be matched again. The absence of a record can be observed at any time. */
function isSeen({ key }: ObservedVersion, writer: FieldWriter): boolean {
  return key === absentVersion || writer.isVersion(versionOf(key))
}

function fromFirst<T>(list: readonly T[], isWanted: (element: T) => boolean): readonly T[] {
  const index = list.findIndex(isWanted)
  return index < 0 ? [] : list.slice(index)
}

/** Returns messages in a canonical order. */
export function inPlace(messages: readonly ModelMessage[]): readonly ModelMessage[] {
  return messages.length > 1 ? messages.toSorted(byPlace) : messages
}

function byPlace(one: ModelMessage, other: ModelMessage): number {
  return order(one) - order(other)
}

function order({ kind, who, via = -1, orphan, late, ageTicks }: ModelMessage): number {
  // Events of one watch keep their order: a late event delays those after it.
  if (kind === 'event') return (2 * 16 + who) * 4096
  const place = ((kind === 'request' ? 0 : 1) * 16 + who) * 16 + via
  return ((place * 2 + Number(orphan)) * 2 + Number(late)) * 64 + 63 - Math.min(ageTicks, 63)
}
