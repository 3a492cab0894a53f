import type { Environment } from '../../clients/http/environment.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { postgresStore } from './index.ts'
import { connectionTo } from './connect.ts'

/**
 * Opens the store that a URL names, with its own connection. `?table=schema.table` names the table. The client handles
 * the other parameters.
 */
export async function openPostgres(url: URL, environment: Environment): Promise<InspectableStore> {
  const { table, connect } = await connectionTo(url, environment)
  return postgresStore({ connect, table })
}
