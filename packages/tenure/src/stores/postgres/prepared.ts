import { senderOf, type PostgresQueryClient, type PostgresRows, type Sender } from './client.ts'
import { isUnprepared } from './failures.ts'
import { standing } from './standing.ts'

/** How a client of `pg` is asked for a statement that its connection keeps. */
interface PreparingClient {
  query(query: { readonly name: string; readonly text: string; readonly values: unknown[] }): PromiseLike<PostgresRows>
}

/**
 * Sends statements under their names, so that the server parses and plans each of them once for a connection, which is
 * a third of a renewal. Behind a pooler a connection may turn out not to know a name, or to know it from somebody else.
 * The server then refuses before it has done anything, and from then on names are not used.
 */
export function preparing(client: PostgresQueryClient): Sender {
  const send = senderOf(client)
  // Only clients of `pg` have one, and only they are known to take statements with a name.
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
