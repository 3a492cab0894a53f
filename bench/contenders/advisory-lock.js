// An advisory lock of PostgreSQL, which lasts as long as the connection of its holder.
import pg from 'pg'
import { takeTurns } from './take-turns.js'

/** @type {import('./take-turns.js').TakePart} */
export async function takePart({ url, election, tell }) {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => tell('lost'))
  await client.connect()
  const acquire = async () => {
    await client.query('select pg_advisory_lock(hashtext($1))', [election])
    return () => client.query('select pg_advisory_unlock(hashtext($1))', [election])
  }
  return takeTurns(acquire, tell)
}
