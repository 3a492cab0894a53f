import { messageOf } from '@tenure/internal/message'
import { invalidOption } from '../common/errors.ts'
import type { LeaseRecord, ListOptions, ListPage } from '../engine/lease-store.ts'
import { checkOptions } from '../common/check-options.ts'

const maxPageSize = 1000
const defaultPageSize = 100

/** A validated page request. */
export interface Page {
  readonly after: string | undefined
  readonly limit: number
}

/** Validates the options of `list` and fills in the defaults. */
export function pageOf(options: ListOptions): Page {
  checkOptions('list()', options, { after: true, limit: true })
  const { after, limit = defaultPageSize } = options
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > maxPageSize) {
    throw invalidOption('limit', limit, `it must be a whole number from 1 to ${maxPageSize}`)
  }
  if (after !== undefined && (typeof after !== 'string' || after === '')) {
    throw invalidOption('after', after, 'it must be the "next" value of the previous page')
  }
  return { after, limit }
}

/** Returns the slice of the sorted keys for one page, and the key after which the next page begins. */
export function keysOn<Key extends string>({ after, limit }: Page, sorted: readonly Key[]) {
  const rest = after === undefined ? sorted : sorted.filter((key) => key > after)
  const keys = rest.slice(0, limit)
  return { keys, next: rest.length > limit ? keys.at(-1) : undefined }
}

/**
 * Builds a page from entries. An entry that cannot be decoded becomes a problem and does not hide the others. An entry
 * whose record no longer exists is left out.
 */
export function listPage<Entry>(
  entries: readonly Entry[],
  next: string | undefined,
  read: (entry: Entry, index: number) => LeaseRecord | undefined,
): ListPage {
  const records: LeaseRecord[] = []
  const problems: string[] = []
  for (const [index, entry] of entries.entries()) {
    try {
      const record = read(entry, index)
      if (record) records.push(record)
    } catch (error) {
      problems.push(messageOf(error))
    }
  }
  return { records, ...(next !== undefined && { next }), ...(problems.length > 0 && { problems }) }
}
