import type { ClientBase } from 'pg'

/** From now on this client waits for an answer as if it had been made with a short `query_timeout`; others do not. */
export function giveUpSoon(client: ClientBase | undefined): void {
  const parameters: unknown = client && Reflect.get(client, 'connectionParameters')
  if (typeof parameters !== 'object' || parameters === null) throw new Error('pg keeps its settings elsewhere')
  Reflect.set(parameters, 'query_timeout', 200)
}
