import { createHash } from 'node:crypto'
import { messageOf } from '@tenure/internal/message'
import { TenureError } from '../../common/errors.ts'
import type { LeaseRecord } from '../../engine/lease-store.ts'
import {
  booleanField,
  invalid,
  numberField,
  objectField,
  optionalText,
  parseObject,
  textField,
} from '../../store-kit/record.ts'
import type { ClockReading } from './clock-domain.ts'

const format = 1

/**
 * Address of the holder's liveness socket: its path (relative to the leases' directory) and the identity of the file.
 */
export interface LivenessSocketAddress {
  readonly path: string
  readonly device: string
  readonly inode: string
}

/** Content of the election's file. */
export interface StoredLease {
  readonly record: LeaseRecord
  /** Machine clock when the lease was granted or renewed. Undefined if the writer's system has no such clock. */
  readonly clock: ClockReading | undefined
  readonly signOfLife: LivenessSocketAddress | undefined
}

/** Kept separately from the record, so that terms continue to rise after someone deletes the election's file. */
export interface TermRecord {
  readonly election: string
  readonly highestTerm: number
  readonly leaseDurationMs: number
  /** File name of the socket that was opened for this term, so that a later leader can remove it. */
  readonly socket: string | undefined
  /** When the lease was last granted or renewed. Deleting the record does not end the lease. */
  readonly clock: ClockReading | undefined
}

/** Encodes an election's file. Its first fields are those that document 000 defines for the file. */
export function encodeLease({ record, clock, signOfLife }: StoredLease): string {
  return seal({
    // A released lease has no holder. The last holder is kept separately, to check a late release against.
    holder: record.released ? '' : record.holder,
    renewTime: new Date(record.renewedAt).toISOString(),
    leaseDuration: encodeDuration(record.leaseDurationMs),
    format,
    election: record.election,
    lastHolder: record.holder,
    term: record.term,
    acquireTime: new Date(record.acquiredAt).toISOString(),
    released: record.released,
    attempt: record.attempt,
    version: record.version,
    metadata: record.metadata,
    carry: record.carry,
    mark: record.mark,
    clock: clock ?? null,
    signOfLife: signOfLife ?? null,
  })
}

/**
 * Decodes what {@link encodeLease} wrote. Rejects anything it does not fully understand: guessing could elect two
 * leaders. If `election` is undefined, the record may belong to any election.
 */
export function decodeLease(path: string, election: string | undefined, text: string): StoredLease {
  return explain(path, () => {
    const value = unseal(text)
    const record: LeaseRecord = {
      election: textField(value, 'election'),
      holder: textField(value, 'lastHolder'),
      attempt: textField(value, 'attempt'),
      term: numberField(value, 'term', isTerm),
      leaseDurationMs: decodeDuration(textField(value, 'leaseDuration')),
      acquiredAt: timeField(value, 'acquireTime'),
      renewedAt: timeField(value, 'renewTime'),
      released: booleanField(value, 'released'),
      metadata: objectField(value, 'metadata'),
      carry: textField(value, 'carry'),
      version: textField(value, 'version'),
      mark: optionalText(value, 'mark'),
    }
    checkElection(record.election, election ?? record.election)
    const sign = optionalField(value, 'signOfLife')
    return {
      record,
      clock: clockField(value, 'clock'),
      signOfLife: sign && {
        path: textField(sign, 'path'),
        device: textField(sign, 'device'),
        inode: textField(sign, 'inode'),
      },
    }
  })
}

/** Encodes the file that keeps the highest term. */
export function encodeMark(mark: TermRecord): string {
  return seal({
    format,
    election: mark.election,
    highestTerm: mark.highestTerm,
    leaseDuration: encodeDuration(mark.leaseDurationMs),
    socket: mark.socket ?? '',
    clock: mark.clock ?? null,
  })
}

/** Decodes what {@link encodeMark} wrote. */
export function decodeMark(path: string, election: string, text: string): TermRecord {
  return explain(path, () => {
    const value = unseal(text)
    checkElection(textField(value, 'election'), election)
    return {
      election,
      highestTerm: numberField(value, 'highestTerm', isTerm),
      leaseDurationMs: decodeDuration(textField(value, 'leaseDuration')),
      socket: textField(value, 'socket') || undefined,
      clock: clockField(value, 'clock'),
    }
  })
}

/**
 * Durations as Go writes them and as document 000 defines for the file: whole seconds, else milliseconds rounded up.
 */
export function encodeDuration(ms: number): string {
  const whole = Math.ceil(ms)
  return whole % 1000 === 0 ? `${whole / 1000}s` : `${whole}ms`
}

function decodeDuration(text: string): number {
  const [, digits = '', unit] = /^(\d{1,10})(s|ms)$/.exec(text) ?? []
  const ms = Number(digits) * (unit === 's' ? 1000 : 1)
  if (ms > 0 && ms < 2 ** 31) return ms
  throw invalid(`"leaseDuration" is ${JSON.stringify(text)}`)
}

function seal(fields: Record<string, unknown>): string {
  return `${JSON.stringify({ ...fields, checksum: checksumOf(fields) }, undefined, 2)}\n`
}

function unseal(text: string): Record<string, unknown> {
  const { checksum, ...fields } = parseObject(text)
  if (fields['format'] === undefined && 'holder' in fields) {
    throw invalid('it was written by another program ("format" is missing), whose locks and clock are unknown')
  }
  if (fields['format'] !== format) {
    throw invalid(`its format is ${JSON.stringify(fields['format'])}, but this version reads only format ${format}`)
  }
  if (checksum !== checksumOf(fields)) {
    throw invalid('its checksum does not match: it was damaged, or edited by hand')
  }
  return fields
}

function checksumOf(fields: Record<string, unknown>): string {
  return createHash('sha256').update(JSON.stringify(fields)).digest('hex').slice(0, 16)
}

function checkElection(found: string, wanted: string): void {
  if (found !== wanted) throw invalid(`it belongs to election "${found}", not to "${wanted}"`)
}

function isTerm(term: number): boolean {
  return Number.isSafeInteger(term) && term > 0
}

function timeField(value: Record<string, unknown>, name: string): number {
  const ms = Date.parse(textField(value, name))
  if (Number.isFinite(ms)) return ms
  throw invalid(`"${name}" is not a time`)
}

function optionalField(value: Record<string, unknown>, name: string): Record<string, unknown> | undefined {
  return value[name] === null ? undefined : { ...objectField(value, name) }
}

function clockField(value: Record<string, unknown>, name: string): ClockReading | undefined {
  const clock = optionalField(value, name)
  return (
    clock && {
      boot: textField(clock, 'boot'),
      machine: textField(clock, 'machine'),
      timeNamespace: textField(clock, 'timeNamespace'),
      ms: numberField(clock, 'ms', Number.isFinite),
    }
  )
}

function explain<T>(path: string, decode: () => T): T {
  try {
    return decode()
  } catch (cause) {
    const what = messageOf(cause)
    throw new TenureError('RECORD_INVALID', `Lease file "${path}": ${what}`, { cause })
  }
}
