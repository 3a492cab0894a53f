/**
 * The compact text of assignments and reports: bytes in base64. Numbers are LEB128 varints. An id that is a UUID takes
 * 16 bytes. Tokens and epochs are in one table as differences, because most shards share a few of them.
 */
import { decodeBytes } from '@tenure/internal/byte-reader'
import { assignmentFormat, decodeAssignmentBytes, shardsLimit } from '@tenure/internal/shard-assignment'
import { namedMembers, type Assignment, type MemberId, type OwnershipReport, type ShardState } from './assignment.ts'

const reportFormat = 2
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
  return decodeAssignmentBytes(Buffer.from(text, 'base64'))
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
  return decodeBytes(Buffer.from(text, 'base64'), reportFormat, (bytes) => {
    const flags = bytes.number(3)
    const [attempt, lineage, seen] = [bytes.id(), bytes.id(), bytes.number()]
    let previous = 0
    const running = bytes.list(shardsLimit, () => (previous += bytes.number(shardsLimit)))
    return { attempt, lineage, seen, running, leaving: (flags & 1) === 1, left: (flags & 2) === 2 }
  })
}

function epochsOf(shard: ShardState): number[] {
  if (shard.state === 'owned') return [shard.token]
  return shard.state === 'revoked' ? [shard.since] : []
}

function distinct<T>(list: readonly T[]): T[] {
  return [...new Set(list)]
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
