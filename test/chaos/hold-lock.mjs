// Takes the write lock of a SQLite database, changes every record in the open transaction, and keeps it open.
import Database from 'libsql'

const [path = ''] = process.argv.slice(2)
const database = new Database(path, { timeout: 5_000 })
database.exec('BEGIN IMMEDIATE')
database.exec(
  `UPDATE tenure_leases SET version = 'changed', record = replace(record, '"released":false', '"released":true')`,
)
process.send?.('held')
setInterval(() => {}, 60_000)
