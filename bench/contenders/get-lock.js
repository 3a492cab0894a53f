// GET_LOCK of MySQL, which lasts as long as the connection of its holder.
import { createConnection } from 'mysql2/promise'
import { takeTurns } from './take-turns.js'

/** MariaDB does not wait forever, so this is longer than any benchmark. */
const waitS = 86_400

/** @type {import('./take-turns.js').TakePart} */
export async function takePart({ url, election, tell }) {
  const client = await createConnection({ uri: url })
  client.on('error', () => tell('lost'))
  const acquire = async () => {
    await client.query('select get_lock(?, ?)', [election, waitS])
    return () => client.query('select release_lock(?)', [election])
  }
  return takeTurns(acquire, tell)
}
