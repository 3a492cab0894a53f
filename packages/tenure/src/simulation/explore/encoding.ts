/**
 * A scene as bytes, in a form that all scenes share that behave alike: times are relative to now, names are numbered in
 * the order in which they appear, terms begin with the lowest that is known, and what is only for show is left out.
 *
 * Lists of what was seen forget their oldest entry when they are full. An entry whose name is nowhere else can never be
 * matched again. Before the first that can, such entries are left out: what is forgotten when depends on newer ones only.
 */
import { recordFields, stateFields, type Meaning, type Meanings } from '../../election-fields.ts'
import type { OwnAttempt, Settings, Sight } from '../../election-state.ts'
import { Bytes, ByteReader, Words } from './bytes.ts'
import {
  leaseDurationMs,
  type Claim,
  type Message,
  type Reply,
  type Scene,
  type Server,
  type Setup,
  type Slot,
} from './scene.ts'

type Fields = readonly (readonly [name: string, meaning: Meaning | Fields])[]
type Data = { readonly [name: string]: unknown }

const claimFields: Meanings<Required<UnionFields<Claim>>> = {
  election: 'shown',
  holder: 'value',
  attempt: 'attempt',
  leaseDurationMs: 'value',
  metadata: 'shown',
  afterTerm: 'term',
  expiredVersion: 'version',
  term: 'term',
  version: 'version',
  carry: 'value',
  mark: 'mark',
}

type UnionFields<T> = { [K in T extends unknown ? keyof T : never]: T extends { [P in K]?: infer V } ? V : never }

const replyFields = {
  outcome: {
    ok: 'value',
    record: recordFields,
    validForMs: 'value',
    highestTerm: 'term',
    retryAfterMs: 'value',
  },
  record: recordFields,
  failed: 'value',
} as const satisfies { readonly [K in keyof Required<Reply>]: unknown }

const serverFields = {
  record: recordFields,
  past: recordFields,
  highestTerm: 'term',
  lastDurationMs: 'value',
  endsAtMs: 'due',
  granted: 'attempt',
} as const satisfies { readonly [K in keyof Server]: unknown }

const slotFields = {
  life: 'value',
  state: stateFields,
  wakeAtMs: 'due',
  flight: 'call',
  boundAtMs: 'due',
  watching: 'value',
  ledTerm: 'term',
  open: 'value',
  work: 'value',
} as const satisfies { readonly [K in keyof Required<Slot>]: unknown }

const messageFields = {
  kind: 'value',
  who: 'value',
  id: 'call',
  verb: 'value',
  claim: claimFields,
  reply: replyFields,
  record: recordFields,
  orphan: 'value',
  late: 'value',
  ageTicks: 'value',
} as const satisfies { readonly [K in keyof Required<Message>]: unknown }

const fieldsOf = {
  server: compile(serverFields),
  slot: compile(slotFields),
  message: compile(messageFields),
}

const stateTable = fieldsOf.slot.find(([name]) => name === 'state')?.[1]

/** Where names that may still be matched are, and terms. Lists of what was seen only remember. */
const surveyed = {
  server: withNamesOrTerms(fieldsOf.server),
  slot: withNamesOrTerms(fieldsOf.slot),
  message: withNamesOrTerms(fieldsOf.message),
}

function withNamesOrTerms(fields: Fields): Fields {
  return fields.flatMap(([name, field]): Fields => {
    if (name === 'own' || name === 'seen' || name === 'confirmed' || name === 'granted') return []
    if (typeof field === 'string') return field === 'term' || isName(field) ? [[name, field]] : []
    const inner = withNamesOrTerms(field)
    return inner.length > 0 ? [[name, inner]] : []
  })
}

/** What was left out, as every scene has it. */
const shown: Data = { election: 'e', acquiredAt: 0, renewedAt: 0, metadata: {}, contendsSinceMs: 0 }

function compile(fields: object): Fields {
  return Object.entries(fields).map(([name, field]: [string, Meaning | object]) =>
    typeof field === 'string' ? [name, field] : [name, compile(field)],
  )
}

/** Stands for every name that can never be matched again. */
const dead = '~'

/** Writes scenes, and reads them. */
export class Encoding {
  readonly #settings: readonly Settings[]
  readonly #trueTickMs: number
  readonly #tickMs: readonly number[]
  readonly #longestAgeMs: number
  readonly #expiry: Setup['expiry']
  readonly #delayTicks: number
  readonly #words = new Words()
  readonly #bytes = new Bytes(this.#words)
  readonly #live = { attempt: new Set<string>(), mark: new Set<string>(), version: new Set<string>() }
  readonly #names = new Map<string, number>()
  #lowestTerm = 0
  /** Of the elector that is being written. */
  #unitMs = 0
  #pastMs = 0
  #heldPastMs = 0
  #flight: number | undefined

  constructor({ settings, tickMs, ticksMs, jitter, expiry, delayTicks }: Setup) {
    this.#settings = settings
    this.#trueTickMs = tickMs
    this.#tickMs = ticksMs
    this.#expiry = expiry
    this.#delayTicks = delayTicks
    // A lease and a retry are counted from a moment, and by a standby that asks the store now and then twice a jittered lease.
    this.#longestAgeMs = leaseDurationMs * (4 / 3 + 2 * Math.max(...jitter))
  }

  /** The bytes are overwritten by the next call. `ticks`: so much later. */
  write(scene: Scene, ticks: number): Uint8Array {
    this.#survey(scene)
    const bytes = this.#bytes.begin()
    bytes.small(scene.budget)
    bytes.small(scene.strain * 2 + Number(scene.dawn))
    this.#at(this.#trueTickMs, ticks * this.#trueTickMs, 0, undefined)
    const { granted, past, endsAtMs, ...rest } = scene.server
    const server = {
      ...rest,
      endsAtMs: this.#expiry === 'own-clock' ? endsAtMs : 0,
      past: scene.budget > 0 ? past : undefined,
    }
    this.#object({ ...server, granted: granted.filter((name) => this.#live.attempt.has(name)) }, fieldsOf.server)
    for (const [index, slot] of scene.slots.entries()) {
      const unitMs = this.#tickMs[index] ?? this.#trueTickMs
      const passedMs = ticks * unitMs
      this.#at(unitMs, slot.life === 'asleep' ? 0 : passedMs, passedMs, slot.flight)
      this.#object(slot, fieldsOf.slot)
    }
    bytes.small(scene.messages.length)
    for (const message of scene.messages.toSorted(byPlace)) {
      this.#flight = message.orphan ? undefined : scene.slots[message.who]?.flight
      const ageTicks = message.late ? 0 : Math.min(message.ageTicks + ticks, this.#delayTicks)
      this.#object({ ...message, ageTicks }, fieldsOf.message)
    }
    return bytes.end()
  }

  read(encoded: Uint8Array, offset: number): Scene {
    const reader = new ByteReader(this.#words, encoded, offset)
    const [budget, flags] = [reader.small(), reader.small()]
    const read = (fields: Fields, unitMs: number) => readObject(reader, fields, unitMs)
    const server = read(fieldsOf.server, this.#trueTickMs) as unknown as Server
    const slots = this.#settings.map((settings, index) => {
      const slot = read(fieldsOf.slot, this.#tickMs[index] ?? this.#trueTickMs)
      return (slot['state'] ? { ...slot, state: { ...(slot['state'] as Data), settings } } : slot) as unknown as Slot
    })
    const messages = Array.from(
      { length: reader.small() },
      () => read(fieldsOf.message, this.#trueTickMs) as unknown as Message,
    )
    return { server, slots, messages, budget, strain: flags >> 1, dawn: (flags & 1) === 1, names: reader.names }
  }

  #at(unitMs: number, pastMs: number, heldPastMs: number, flight: number | undefined): void {
    this.#unitMs = unitMs
    this.#pastMs = pastMs
    this.#heldPastMs = heldPastMs
    this.#flight = flight
  }

  /** Which names can still be matched, and the lowest term. */
  #survey({ server, slots, messages, budget }: Scene): void {
    for (const live of Object.values(this.#live)) live.clear()
    this.#names.clear()
    this.#lowestTerm = Infinity
    const past = budget > 0 ? server.past : undefined
    this.#collect({ ...server, past }, surveyed.server)
    for (const slot of slots) {
      this.#collect(slot, surveyed.slot)
      // An acquire that is sent again has the mark that it had.
      if (slot.state?.attempt) this.#live.mark.add(slot.state.attempt.id)
    }
    for (const message of messages) this.#collect(message, surveyed.message)
  }

  #collect(data: object, fields: Fields): void {
    for (const [name, field] of fields) {
      const value = (data as Data)[name]
      if (value === undefined) continue
      if (typeof field !== 'string') this.#collect(value as object, field)
      else if (isName(field)) this.#live[field].add(value as string)
      else if (field === 'term' && (value as number) > 0) {
        this.#lowestTerm = Math.min(this.#lowestTerm, value as number)
      }
    }
  }

  /** A list of what was seen, or one sight, without what can never be matched again. */
  #remembered(name: string, value: unknown): unknown {
    const { attempt, mark, version } = this.#live
    const isMark = (one: string) => mark.has(one)
    const marks = (list: readonly string[]) => fromFirst(list, isMark).map((one) => (isMark(one) ? one : dead))
    const isOwn = ({ id }: OwnAttempt) => attempt.has(id)
    const isSeen = ({ key }: Sight) => version.has(versionOf(key))
    const sight = (one: Sight): Sight => (isSeen(one) ? one : { key: dead, atMs: this.#pastMs })
    if (name === 'confirmed') return value && sight(value as Sight)
    if (name === 'seen') return fromFirst(value as readonly Sight[], isSeen).map(sight)
    return fromFirst(value as readonly OwnAttempt[], isOwn).map((one): OwnAttempt =>
      isOwn(one) ? { id: one.id, seen: marks(one.seen), sent: marks(one.sent) } : { id: dead, seen: [], sent: [] },
    )
  }

  #object(data: object, fields: Fields): void {
    const isState = fields === stateTable
    for (const [name, field] of fields) {
      let value = (data as Data)[name]
      if (isState && (name === 'own' || name === 'seen' || name === 'confirmed')) value = this.#remembered(name, value)
      if (Array.isArray(value)) {
        this.#bytes.list(value.length)
        for (const element of value) this.#value(element, field)
      } else {
        this.#value(value, field)
      }
    }
  }

  #value(value: unknown, field: Meaning | Fields): void {
    const bytes = this.#bytes
    if (field === 'now' || field === 'shown') return
    if (value === undefined) return bytes.nothing()
    if (typeof field !== 'string') {
      bytes.some()
      return this.#object(value as object, field)
    }
    switch (field) {
      case 'due':
        return bytes.time(this.#due((value as number) - this.#pastMs), this.#unitMs)
      case 'held due':
        return bytes.time(this.#due((value as number) - this.#heldPastMs), this.#unitMs)
      case 'moment':
        return bytes.time(this.#moment((value as number) - this.#pastMs), this.#unitMs)
      case 'held moment':
        return bytes.time(this.#moment((value as number) - this.#heldPastMs), this.#unitMs)
      case 'term':
        return bytes.count((value as number) > 0 ? (value as number) - this.#lowestTerm + 2 : (value as number) + 1)
      case 'attempt':
      case 'mark':
      case 'version':
        return bytes.name(this.#name(value as string), false)
      case 'sight':
        return bytes.name(this.#name(versionOf(value as string)), (value as string).endsWith(releasedEnd))
      case 'call':
        return bytes.count(value !== undefined && value === this.#flight ? 1 : 0)
      default:
        return bytes.value(value as string | number | boolean)
    }
  }

  #due(ms: number): number {
    return ms <= 0 ? 0 : ms === Infinity ? ms : Math.ceil(ms / this.#unitMs - 1e-9) * this.#unitMs
  }

  #moment(ms: number): number {
    return Math.max(ms, -this.#longestAgeMs)
  }

  #name(name: string): number {
    if (name === '') return 0
    if (name === dead) return 1
    const known = this.#names.get(name)
    if (known !== undefined) return known
    const number = this.#names.size + 2
    this.#names.set(name, number)
    return number
  }
}

function isName(field: Meaning): field is 'attempt' | 'mark' | 'version' {
  return field === 'attempt' || field === 'mark' || field === 'version'
}

const releasedEnd = ' released'

function versionOf(key: string): string {
  return key.endsWith(releasedEnd) ? key.slice(0, -releasedEnd.length) : key
}

function fromFirst<T>(list: readonly T[], isWanted: (element: T) => boolean): readonly T[] {
  const index = list.findIndex(isWanted)
  return index < 0 ? [] : list.slice(index)
}

function byPlace(one: Message, other: Message): number {
  return order(one) - order(other)
}

function order({ kind, who, late, ageTicks }: Message): number {
  const kinds = kind === 'request' ? 0 : kind === 'reply' ? 1 : 2
  return ((kinds * 8 + who) * 2 + Number(late)) * 64 + (kind === 'event' ? 0 : 63 - Math.min(ageTicks, 63))
}

function readObject(reader: ByteReader, fields: Fields, unitMs: number): Data {
  const data: { [name: string]: unknown } = {}
  for (const [name, field] of fields) {
    if (field === 'shown') {
      if (shown[name] !== undefined) data[name] = shown[name]
      continue
    }
    const length = field === 'now' ? undefined : reader.list()
    data[name] =
      length === undefined
        ? readValue(reader, field, unitMs)
        : Array.from({ length }, () => readValue(reader, field, unitMs))
  }
  return data
}

function readValue(reader: ByteReader, field: Meaning | Fields, unitMs: number): unknown {
  if (field === 'now') return 0
  if (reader.isNothing()) return undefined
  if (typeof field !== 'string') {
    reader.some()
    return readObject(reader, field, unitMs)
  }
  switch (field) {
    case 'due':
    case 'held due':
    case 'moment':
    case 'held moment':
      return reader.time(unitMs)
    case 'term':
      return reader.count() - 1
    case 'attempt':
    case 'mark':
    case 'version':
      return nameOf(reader.name().number)
    case 'sight': {
      const { number, flag } = reader.name()
      return `${nameOf(number)}${flag ? releasedEnd : ''}`
    }
    case 'call':
      return reader.count()
    default:
      return reader.value()
  }
}

/** What the number of a name stands for. */
export function nameOf(number: number): string {
  return number === 0 ? '' : number === 1 ? dead : String(number)
}
