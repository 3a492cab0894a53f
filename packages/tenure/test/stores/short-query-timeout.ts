import type { ClientBase } from 'pg'

/**
 * Makes this client wait for answers as if it had been created with a short `query_timeout`. Other clients are
 * unaffected.
 */
export function giveUpSoon(client: ClientBase | undefined): void {
  const parameters: unknown = client && Reflect.get(client, 'connectionParameters')
  if (typeof parameters !== 'object' || parameters === null) throw new Error('pg keeps its settings elsewhere')
  Reflect.set(parameters, 'query_timeout', 200)
}
