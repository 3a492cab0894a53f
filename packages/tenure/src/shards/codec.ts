/**
 * The compact text of assignments and reports: bytes in base64. Numbers are LEB128 varints. An id that is a UUID takes
 * 16 bytes. Tokens and epochs are in one table as differences, because most shards share a few of them.
 */
import {
  membersLimit,
  namedMembers,
  shardsLimit,
  type Assignment,
  type MemberId,
  type OwnershipReport,
  type ShardSettings,
  type ShardState,
} from './assignment.ts'

const assignmentFormat = 1
const reportFormat = 2
/** The bytes of the largest safe integer as a varint. */
const longestNumberBytes = 8
const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/

/** Encodes an assignment. The members are those that its shards name. */
export function encodeAssignment({ settings, epoch, lineage, shards }: Assignment): string {
  const bytes = new ByteWriter()
  bytes.number(assignmentFormat)
  bytes.number(settings.shards)
  bytes.number(settings.names ? 1 : 0)
  for (const name of settings.names ?? []) bytes.text(name)
  bytes.text(settings.hash)
  bytes.number(settings.leaseDurationMs)
  bytes.number(epoch)
  bytes.id(lineage)
  const members = namedMembers(shards)
  bytes.number(members.length)
  for (const { seat, attempt } of members) {
    bytes.number(seat)
    bytes.id(attempt)
  }
  const lineages = distinct(shards.flatMap((shard) => (shard.state === 'revoked' ? [shard.lineage] : [])))
  bytes.number(lineages.length)
  for (const one of lineages) bytes.id(one)
  const epochs = distinct(shards.flatMap(epochsOf)).toSorted((one, other) => other - one)
  bytes.number(epochs.length)
  let previous = epoch
  for (const one of epochs) {
    bytes.number(previous - one)
    previous = one
  }
  const places = new Map(members.map(({ attempt }, place) => [attempt, place]))
  const epochPlaces = new Map(epochs.map((one, place) => [one, place]))
  const placeOf = ({ attempt }: MemberId) => places.get(attempt) ?? 0
  for (const shard of shards) {
    if (shard.state === 'free') bytes.number(0)
    else if (shard.state === 'unknown') bytes.number(1)
    else if (shard.state === 'owned') {
      bytes.number(2 + 2 * placeOf(shard.owner))
      bytes.number(epochPlaces.get(shard.token) ?? 0)
    } else {
      bytes.number(3 + 2 * placeOf(shard.owner))
      bytes.number(epochPlaces.get(shard.since) ?? 0)
      bytes.number(lineages.indexOf(shard.lineage))
    }
  }
  return bytes.end()
}

/** Decodes an assignment. Returns undefined for any other text, which a coordinator treats like a missing one. */
export function decodeAssignment(text: string): Assignment | undefined {
  return decoded(text, assignmentFormat, (bytes) => {
    const settings = readSettings(bytes)
    const epoch = bytes.number()
    const lineage = bytes.id()
    const members = bytes.list(membersLimit, () => ({ seat: bytes.number(membersLimit - 1), attempt: bytes.id() }))
    const lineages = bytes.list(shardsLimit, () => bytes.id())
    let previous = epoch
    const epochs = bytes.list(shardsLimit, () => (previous -= bytes.number(previous)))
    const shards = Array.from({ length: settings.shards }, (): ShardState => {
      const kind = bytes.number()
      if (kind < 2) return { state: kind === 0 ? 'free' : 'unknown' }
      const owner = at(members, (kind >> 1) - 1)
      const when = at(epochs, bytes.number())
      if ((kind & 1) === 0) return { state: 'owned', owner, token: when }
      return { state: 'revoked', owner, since: when, lineage: at(lineages, bytes.number()) }
    })
    return { settings, epoch, lineage, members, shards }
  })
}

/** Encodes a report. */
export function encodeReport({ attempt, lineage, seen, running, leaving, left }: OwnershipReport): string {
  const bytes = new ByteWriter()
  bytes.number(reportFormat)
  bytes.number(Number(leaving) + 2 * Number(left))
  bytes.id(attempt)
  bytes.id(lineage)
  bytes.number(seen)
  bytes.number(running.length)
  let previous = 0
  for (const shard of running) {
    bytes.number(shard - previous)
    previous = shard
  }
  return bytes.end()
}

/** Decodes a report. Returns undefined for any other text. */
export function decodeReport(text: string): OwnershipReport | undefined {
  return decoded(text, reportFormat, (bytes) => {
    const flags = bytes.number(3)
    const [attempt, lineage, seen] = [bytes.id(), bytes.id(), bytes.number()]
    let previous = 0
    const running = bytes.list(shardsLimit, () => (previous += bytes.number(shardsLimit)))
    return { attempt, lineage, seen, running, leaving: (flags & 1) === 1, left: (flags & 2) === 2 }
  })
}

function readSettings(bytes: ByteReader): ShardSettings {
  const shards = bytes.number(shardsLimit)
  const hasNames = bytes.number(1)
  const names = hasNames === 1 ? Array.from({ length: shards }, () => bytes.text()) : undefined
  return { shards, ...(names && { names }), hash: bytes.text(), leaseDurationMs: bytes.number() }
}

function epochsOf(shard: ShardState): number[] {
  if (shard.state === 'owned') return [shard.token]
  return shard.state === 'revoked' ? [shard.since] : []
}

function decoded<T>(text: string, format: number, read: (bytes: ByteReader) => T): T | undefined {
  const bytes = new ByteReader(Buffer.from(text, 'base64'))
  try {
    if (bytes.number() !== format) return undefined
    const value = read(bytes)
    return bytes.isAtEnd ? value : undefined
  } catch {
    return undefined
  }
}

function distinct<T>(list: readonly T[]): T[] {
  return [...new Set(list)]
}

function at<T>(list: readonly T[], index: number): T {
  const element = list[index]
  if (element === undefined) throw new RangeError('the text refers to an entry that does not exist')
  return element
}

class ByteWriter {
  readonly #bytes: number[] = []

  number(value: number): void {
    let rest = value
    while (rest >= 128) {
      this.#bytes.push((rest % 128) + 128)
      rest = Math.floor(rest / 128)
    }
    this.#bytes.push(rest)
  }

  text(value: string): void {
    const bytes = Buffer.from(value, 'utf8')
    this.number(bytes.length)
    this.#bytes.push(...bytes)
  }

  /** A UUID as 0 and its bytes, any other id as its length plus 1 and its text. */
  id(value: string): void {
    const bytes = uuid.test(value) ? Buffer.from(value.replaceAll('-', ''), 'hex') : Buffer.from(value, 'utf8')
    this.number(uuid.test(value) ? 0 : bytes.length + 1)
    this.#bytes.push(...bytes)
  }

  end(): string {
    return Buffer.from(this.#bytes).toString('base64')
  }
}

class ByteReader {
  readonly #bytes: Buffer
  #offset = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#offset === this.#bytes.length
  }

  number(most = Number.MAX_SAFE_INTEGER): number {
    let value = 0
    for (let length = 1, scale = 1; ; length += 1, scale *= 128) {
      // A longer one would overflow the scale, and no comparison would refuse the result.
      if (length > longestNumberBytes) throw new RangeError('the number is too long')
      const byte = at(this.#bytes as unknown as readonly number[], this.#offset)
      this.#offset += 1
      value += (byte % 128) * scale
      if (value > most) throw new RangeError('the number is too large')
      if (byte < 128) return value
    }
  }

  text(): string {
    return this.#take(this.number()).toString('utf8')
  }

  id(): string {
    const length = this.number()
    if (length > 0) return this.#take(length - 1).toString('utf8')
    const hex = this.#take(16).toString('hex')
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  }

  list<T>(limit: number, read: () => T): T[] {
    const length = this.number(limit)
    return Array.from({ length }, read)
  }

  #take(length: number): Buffer {
    const bytes = this.#bytes.subarray(this.#offset, this.#offset + length)
    if (bytes.length < length) throw new RangeError('the text is cut off')
    this.#offset += length
    return bytes
  }
}
