import { invalidOption } from '../../common/errors.ts'

/** The default table. */
export const defaultTable = 'tenure_leases'

const part = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/

/** The quoted name of a table. Accepts only letters, digits and underscores, because it is inserted into statements. */
export function quotedTable(table: unknown): string {
  const parts = typeof table === 'string' ? table.split('.') : []
  if (parts.length < 1 || parts.length > 2 || !parts.every((each) => part.test(each))) {
    const rule = '"table" or "database.table" of letters, digits and underscores, each at most 64 characters long'
    throw invalidOption('table', table, `it must be ${rule}`)
  }
  return parts.map((each) => `\`${each}\``).join('.')
}
