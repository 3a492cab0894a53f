/**
 * The fields of a MultiClusterLease, each with its type. Candidates and controllers use these tables to read and write,
 * so that neither side can miss a field that the other side knows. A field without an entry is a type error.
 */
import { isObject } from '@tenure/internal/objects'
import type {
  MultiClusterAnswer,
  MultiClusterLeaseSpec,
  MultiClusterLeaseStatus,
  MultiClusterRequest,
  RelayedRecord,
  RequestClaim,
} from './resource-types.ts'

/** An object as returned by the API server, before any of its fields has been checked. */
export type UncheckedFields = Readonly<Record<string, unknown>>

type TypeName<Value> = Value extends string ? 'string' : Value extends number ? 'number' : 'boolean'

/** The type of each field of `T`, except the fields in `Others`, which have their own readers. */
type FieldTable<T, Others extends keyof T = never> = {
  readonly [Field in Exclude<keyof T, Others>]-?: TypeName<Exclude<T[Field], undefined>>
}

export const claimFields: FieldTable<RequestClaim> = {
  holder: 'string',
  attempt: 'string',
  leaseDurationMs: 'number',
  afterTerm: 'number',
  expiredVersion: 'string',
  metadata: 'string',
  term: 'number',
  version: 'string',
  checkpoint: 'string',
  writeId: 'string',
  successor: 'string',
}

export const requestFields: FieldTable<MultiClusterRequest, 'claim'> = {
  id: 'string',
  verb: 'string',
  renewTime: 'string',
  timeoutMs: 'number',
}

export const heartbeatFields: FieldTable<MultiClusterLeaseSpec, 'requests'> = {
  holderIdentity: 'string',
  leaseDurationSeconds: 'number',
  renewTime: 'string',
}

export const recordFields: FieldTable<RelayedRecord> = {
  holder: 'string',
  cluster: 'string',
  attempt: 'string',
  term: 'number',
  leaseDurationMs: 'number',
  acquiredAt: 'number',
  renewedAt: 'number',
  released: 'boolean',
  metadata: 'string',
  checkpoint: 'string',
  version: 'string',
  writeId: 'string',
  successor: 'string',
}

export const answerFields: FieldTable<MultiClusterAnswer, 'record' | 'error'> = {
  id: 'string',
  ok: 'boolean',
  validForMs: 'number',
  highestTerm: 'number',
  retryAfterMs: 'number',
}

export const statusFields: FieldTable<MultiClusterLeaseStatus, 'conditions' | 'record' | 'answers' | 'silent'> = {
  leader: 'string',
  globalHolderIdentity: 'string',
  cluster: 'string',
  term: 'number',
  acquireTime: 'string',
  renewTime: 'string',
  leaseDurationSeconds: 'number',
  observedGeneration: 'number',
}

type Table = Readonly<Record<string, keyof Types>>
interface Types {
  string: string
  number: number
  boolean: boolean
}

/** The result of {@link readFields}: the fields of a table that are present. */
type FieldsOf<T extends Table> = { readonly [Field in keyof T]?: Types[T[Field]] }

/** Reads the fields of a table. Fields that are missing or have another type are omitted. */
export function readFields<T extends Table>(table: T, value: unknown): FieldsOf<T> {
  const object = asObject(value)
  const read: Record<string, unknown> = {}
  // A plain loop, because a controller reads several hundred such objects per second.
  for (const name in table) {
    if (typeof object[name] === table[name]) read[name] = object[name]
  }
  return read as FieldsOf<T>
}

/** Every field of a table as null, because a merge patch keeps fields that it does not name. */
export function emptyFields<T extends Table>(table: T): { readonly [Field in keyof T]: null } {
  return Object.fromEntries(Object.keys(table).map((name) => [name, null])) as { [Field in keyof T]: null }
}

export function asObject(value: unknown): UncheckedFields {
  return isObject(value) ? value : {}
}
