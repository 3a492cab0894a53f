import type { Environment } from '../../http/environment.ts'
import type { InspectableStore } from '../finding.ts'
import { postgresStore } from '../postgres.ts'
import { connectionTo } from './connect.ts'

/**
 * The store that a URL names, on a connection of its own. `?table=schema.table` names the table; the other parameters
 * are the client's.
 */
export async function openPostgres(url: URL, environment: Environment): Promise<InspectableStore> {
  const { table, connect } = await connectionTo(url, environment)
  return postgresStore({ connect, table })
}
