import { invalidOption } from '../errors.ts'
import type { VersionedValue } from './cas.ts'
import { encodeName } from './encode-name.ts'
import type { Kind } from './objects.ts'

/** How many objects a page of a listing reads, at most, and how many at the same time. */
export const mostOnPage = 100
const atOnce = 16
/** Without a slash, a dot at the beginning, or a percent sign: what every bucket and every tool leaves as it is. */
const plainName = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/

/** A prefix of names of objects, with a slash at its end: no object of one prefix is one of another. */
export function folderOf(prefix: unknown): string {
  const rule = 'it must be text such as "tenure" or "my-app/leases", of at most 512 bytes'
  if (typeof prefix !== 'string') throw invalidOption('prefix', prefix, rule)
  const folder = prefix.replace(/\/?$/, '/')
  const isUsual = folder
    .slice(0, -1)
    .split('/')
    .every((part) => part !== '' && !/^\.\.?$|\p{Cc}/u.test(part))
  if (!isUsual || Buffer.byteLength(folder) > 512) throw invalidOption('prefix', prefix, rule)
  return folder
}

/** An object of an election. Names that end alike are those of different elections. */
export function objectOf(folder: string, election: string, kind: Kind): string {
  return `${folder}${encodeName(election, plainName)}.${kind}`
}

/** What is in those of the objects that are records. What was deleted meanwhile is left out. */
export async function valuesOf(
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
