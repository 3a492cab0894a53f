import { invalidOption } from '../../errors.ts'

/** What the store's relations are called, quoted. */
export interface TableNames {
  /** With its schema. */
  readonly table: string
  readonly schema: string
  /** The records. */
  readonly leases: string
  /** The highest terms, which outlive the records. */
  readonly terms: string
  /** Format and channel. */
  readonly meta: string
  readonly versions: string
  readonly notify: string
}

/** The longest suffix has to fit into the 63 bytes that PostgreSQL leaves of a name. */
const part = /^[A-Za-z_][A-Za-z0-9_]{0,53}$/

/**
 * Without a schema it is in `public`, whatever the role's search path: two roles that found a table of their own would
 * both lead.
 */
const usualSchema = 'public'

/** Names of letters, digits and underscores only: they are written into statements. */
export function namesOf(table: unknown): TableNames {
  const parts = typeof table === 'string' ? table.split('.') : []
  const name = parts.at(-1)
  if (name === undefined || parts.length > 2 || !parts.every((each) => part.test(each))) {
    const rule = '"table" or "schema.table" of letters, digits and underscores, each of at most 54'
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
