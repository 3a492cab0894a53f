import { Client, type Pool } from 'pg'
import { setTimeout as delay } from 'node:timers/promises'

/** How other programs are affected by stores that cannot write. */
export interface Outage {
  /** The highest number of backends of the stores at one moment. */
  readonly mostBackends: number
  /** The number of new connections that another program tried to open. */
  readonly tried: number
  /** How many of these were refused, or read nothing within five seconds. */
  readonly refused: number
}

/** Counts the backends with the application name `tenure`, and connects as another program does, for this long. */
export async function observeOutage(admin: Pool, url: string, forMs: number): Promise<Outage> {
  const count = `select cast(count(*) as integer) as backends from pg_stat_activity where application_name = 'tenure'`
  const endMs = performance.now() + forMs
  let [mostBackends, tried, refused] = [0, 0, 0]
  while (performance.now() < endMs) {
    const { rows } = await admin.query<{ backends: number }>(count)
    mostBackends = Math.max(mostBackends, rows[0]?.backends ?? 0)
    tried += 1
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000, query_timeout: 5_000 })
    client.on('error', () => {})
    try {
      await client.connect()
      await client.query('select count(*) from pg_class')
    } catch {
      refused += 1
    } finally {
      await client.end().catch(() => {})
    }
    await delay(200)
  }
  return { mostBackends, tried, refused }
}
