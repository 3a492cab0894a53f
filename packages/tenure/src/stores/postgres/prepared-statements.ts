import { senderOf, type PostgresQueryClient, type PostgresRows, type Sender } from './client.ts'
import { isUnprepared } from './failures.ts'
import { standing } from './commit-check.ts'

/** How a client of `pg` sends a named statement, which the connection keeps prepared. */
interface PreparingClient {
  query(query: { readonly name: string; readonly text: string; readonly values: unknown[] }): PromiseLike<PostgresRows>
}

/**
 * Sends statements under their names, so that the server parses and plans each of them once per connection. That saves
 * a third of the time of a renewal. Behind a pooler, a connection may not know a name, or may know it from another
 * client. The server then refuses the statement without running it, and names are not used from then on.
 */
export function preparedSender(client: PostgresQueryClient): Sender {
  const send = senderOf(client)
  // Only clients of `pg` have this field, and only they are known to accept named statements.
  let mayPrepare = typeof Reflect.get(client, 'processID') === 'number'
  return async (statement, values) => {
    if (!mayPrepare || values.length === 0) return send(statement, values)
    const { name, text } = statement
    try {
      const ask = () => (client as unknown as PreparingClient).query({ name, text, values })
      return await standing(client, ask, (look) => client.query(look, []))
    } catch (error) {
      if (!isUnprepared(error)) throw error
      mayPrepare = false
      return send(statement, values)
    }
  }
}
