import type { Clock } from '../../common/clock.ts'
import type { Environment } from '../../clients/http/environment.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import { withBound } from '../../store-kit/call-deadline.ts'
import type { PostgresRow } from './client.ts'
import { connectionTo } from './connect.ts'
import { failureOf } from './failures.ts'
import { PostgresSession, type PostgresListenClient } from './session.ts'
import { prepared } from './statements.ts'

/** Runs statements on a database one after another, each in its own transaction. */
export interface PostgresStatements {
  /** The table in the URL: `table` or `schema.table`. Undefined if the URL has none. */
  readonly table: string | undefined
  /**
   * Rejects if it is unknown whether the statement was or will be applied, and if the server stopped waiting for its
   * replicas.
   */
  run(text: string, values: readonly (string | null)[], call: CallOptions): Promise<readonly PostgresRow[]>
  close(): Promise<void>
}

/**
 * Runs statements on the database that a URL names, on a dedicated connection that is reopened when it is lost.
 *
 * @example
 * const statements = await openPostgresStatements(new URL('postgres://127.0.0.1/app'), process.env, clock)
 */
export async function openPostgresStatements(
  url: URL,
  environment: Environment,
  clock: Clock,
): Promise<PostgresStatements> {
  const { table, connect } = await connectionTo(url, environment)
  return statementsOn(connect, table, clock)
}

/** Runs statements as {@link openPostgresStatements} does, on connections that `connect` opens. */
export function statementsOn(
  connect: () => Promise<PostgresListenClient>,
  table: string | undefined,
  clock: Clock,
): PostgresStatements {
  const session = new PostgresSession(connect, clock)
  return {
    table,
    run: (text, values, call) =>
      withBound(clock, 'PostgreSQL', call, async (bound) => {
        try {
          return await session.run(prepared(text), [...values], bound)
        } catch (error) {
          if (bound.ended) throw error
          throw failureOf(error, table ?? '')
        }
      }),
    close: () => session.close(),
  }
}
