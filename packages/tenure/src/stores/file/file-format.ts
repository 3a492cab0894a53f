import { createHash } from 'node:crypto'
import { isLeaseDuration, type FieldReader } from '@tenure/internal/field-reader'
import { messageOf } from '@tenure/internal/message'
import { TenureError } from '../../common/errors.ts'
import type { LeaseRecord, Metadata } from '../../engine/lease-store.ts'
import { fieldsOf, invalid, optionalSuccessor, parseObject } from '../../store-kit/record-fields.ts'
import type { ClockReading } from './clock-domain.ts'

const format = 1

/**
 * The address of the holder's liveness socket: its path, relative to the directory of the leases, and the identity of
 * the file.
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

/** Kept separately from the record, so that terms keep rising after someone deletes the election's file. */
export interface FileTermRecord {
  readonly election: string
  readonly highestTerm: number
  readonly leaseDurationMs: number
  /** File name of the socket that was opened for this term, so that a later leader can remove it. */
  readonly socket: string | undefined
  /** When the lease was last granted or renewed. Deleting the record does not end the lease. */
  readonly clock: ClockReading | undefined
}

/** Encodes an election's file. The fields that the specification defines for the file (its document 000) come first. */
export function encodeLease({ record, clock, signOfLife }: StoredLease): string {
  return seal({
    // A released lease has no holder. The last holder is kept separately, so that a late release can be checked against
    // it.
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
    checkpoint: record.checkpoint,
    successor: record.successor,
    writeId: record.writeId,
    clock: clock ?? null,
    signOfLife: signOfLife ?? null,
  })
}

/**
 * Decodes text that {@link encodeLease} wrote. Rejects anything that it does not fully understand, because guessing
 * could elect two leaders. If `election` is undefined, the record may belong to any election.
 */
export function decodeLease(path: string, election: string | undefined, text: string): StoredLease {
  return explain(path, () => {
    const fields = fieldsOf(unseal(text))
    const record: LeaseRecord = {
      election: fields.text('election'),
      holder: fields.text('lastHolder'),
      attempt: fields.text('attempt'),
      term: fields.term('term'),
      leaseDurationMs: decodeDuration(fields.text('leaseDuration')),
      acquiredAt: timeField(fields, 'acquireTime'),
      renewedAt: timeField(fields, 'renewTime'),
      released: fields.boolean('released'),
      metadata: fields.object('metadata') as Metadata,
      checkpoint: fields.text('checkpoint'),
      version: fields.text('version'),
      writeId: fields.optionalText('writeId'),
      ...optionalSuccessor(fields),
    }
    checkElection(record.election, election ?? record.election)
    const sign = optionalFields(fields, 'signOfLife')
    return {
      record,
      clock: clockField(fields, 'clock'),
      signOfLife: sign && { path: sign.text('path'), device: sign.text('device'), inode: sign.text('inode') },
    }
  })
}

/** Encodes the file that keeps the highest term. */
export function encodeTermRecord(termRecord: FileTermRecord): string {
  return seal({
    format,
    election: termRecord.election,
    highestTerm: termRecord.highestTerm,
    leaseDuration: encodeDuration(termRecord.leaseDurationMs),
    socket: termRecord.socket ?? '',
    clock: termRecord.clock ?? null,
  })
}

/** Decodes text that {@link encodeTermRecord} wrote. */
export function decodeTermRecord(path: string, election: string, text: string): FileTermRecord {
  return explain(path, () => {
    const fields = fieldsOf(unseal(text))
    checkElection(fields.text('election'), election)
    return {
      election,
      highestTerm: fields.term('highestTerm'),
      leaseDurationMs: decodeDuration(fields.text('leaseDuration')),
      socket: fields.text('socket') || undefined,
      clock: clockField(fields, 'clock'),
    }
  })
}

/**
 * Encodes a duration as Go does, and as the specification (its document 000) defines for the file: in whole seconds if
 * possible, otherwise in milliseconds, rounded up.
 */
export function encodeDuration(ms: number): string {
  const whole = Math.ceil(ms)
  return whole % 1000 === 0 ? `${whole / 1000}s` : `${whole}ms`
}

function decodeDuration(text: string): number {
  const [, digits = '', unit] = /^(\d{1,10})(s|ms)$/.exec(text) ?? []
  const ms = Number(digits) * (unit === 's' ? 1000 : 1)
  if (isLeaseDuration(ms)) return ms
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

function timeField(fields: FieldReader, name: string): number {
  const ms = Date.parse(fields.text(name))
  if (Number.isFinite(ms)) return ms
  throw invalid(`"${name}" is not a time`)
}

function optionalFields(fields: FieldReader, name: string): FieldReader | undefined {
  return fields.isNull(name) ? undefined : fieldsOf(fields.object(name))
}

function clockField(fields: FieldReader, name: string): ClockReading | undefined {
  const clock = optionalFields(fields, name)
  return (
    clock && {
      boot: clock.text('boot'),
      machine: clock.text('machine'),
      timeNamespace: clock.text('timeNamespace'),
      ms: clock.number('ms', Number.isFinite),
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
