import { invalidOption } from '../../common/errors.ts'

/** Quoted names of the store's relations. */
export interface TableNames {
  /** The table's name with its schema, unquoted. */
  readonly table: string
  readonly schema: string
  /** The records. */
  readonly leases: string
  /** The highest terms, which outlive the records. */
  readonly terms: string
  /** The table that stores the format version and the name of the notification channel. */
  readonly meta: string
  readonly versions: string
  readonly notify: string
}

/** Leaves room for the longest suffix within PostgreSQL's limit of 63 bytes. */
const part = /^[A-Za-z_][A-Za-z0-9_]{0,53}$/

/**
 * The default schema, regardless of the role's search path. Otherwise two roles that each found their own table would
 * both lead.
 */
const usualSchema = 'public'

/** Accepts only letters, digits and underscores, because the names are inserted into statements. */
export function namesOf(table: unknown): TableNames {
  const parts = typeof table === 'string' ? table.split('.') : []
  const name = parts.at(-1)
  if (name === undefined || parts.length > 2 || !parts.every((each) => part.test(each))) {
    const rule = '"table" or "schema.table" of letters, digits and underscores, each at most 54 characters long'
    throw invalidOption('table', table, `it must be ${rule}`)
  }
  const [schema = usualSchema] = parts.slice(0, -1)
  const quoted = (suffix = '') => `"${schema}"."${name}${suffix}"`
  return {
    table: `${schema}.${name}`,
    schema,
    leases: quoted(),
    terms: quoted('_terms'),
    meta: quoted('_meta'),
    versions: quoted('_version'),
    notify: quoted('_notify'),
  }
}
