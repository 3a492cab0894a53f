import { invalidOption } from '../common/errors.ts'
import type { VersionedValue } from './cas-store.ts'
import { encodeName } from './encode-name.ts'
import type { ObjectKind } from './two-object-store.ts'

/** The maximum number of objects that a page of a listing reads, and how many of them are read concurrently. */
export const maxPageSize = 100
const atOnce = 16
/** No slash, no leading dot, and no percent sign. Every bucket and tool leaves such names unchanged. */
const plainName = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/

/** Validates a prefix of object names and ends it with a slash, so that no prefix matches the objects of another. */
export function objectPrefix(prefix: unknown): string {
  const rule = 'it must be a string such as "tenure" or "my-app/leases", of at most 512 bytes'
  if (typeof prefix !== 'string') throw invalidOption('prefix', prefix, rule)
  const folder = prefix.replace(/\/?$/, '/')
  const isUsual = folder
    .slice(0, -1)
    .split('/')
    .every((part) => part !== '' && !/^\.\.?$|\p{Cc}/u.test(part))
  if (!isUsual || Buffer.byteLength(folder) > 512) throw invalidOption('prefix', prefix, rule)
  return folder
}

/** The name of an election's object. The kind is a suffix, so objects of different elections never share a name. */
export function objectOf(folder: string, election: string, kind: ObjectKind): string {
  return `${folder}${encodeName(election, plainName)}.${kind}`
}

/** Reads the objects that are records. Objects that were deleted in the meantime are left out. */
export async function readRecords(
  folder: string,
  objects: readonly string[],
  read: (object: string) => Promise<VersionedValue | undefined>,
): Promise<VersionedValue[]> {
  const own = objects.filter((object) => isRecord(folder, object))
  const values: VersionedValue[] = []
  for (let from = 0; from < own.length; from += atOnce) {
    const found = await Promise.all(own.slice(from, from + atOnce).map(read))
    values.push(...found.filter((value) => value !== undefined))
  }
  return values
}

function isRecord(folder: string, object: string): boolean {
  const [, name = ''] = /^(.*)\.record$/.exec(object.slice(folder.length)) ?? []
  return object.startsWith(folder) && plainName.test(name)
}
