// Runs the conformance suite on `node:sqlite`, in a version of Node.js that has it. Prints one line for each failure.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { storeConformance } from '@tenure/testing/conformance'
import { openStore } from 'tenure/stores'
import { sqliteStore } from 'tenure/stores/sqlite'

/** @typedef {import('tenure/stores/sqlite').SqliteDatabase & { close(): void }} Connection */
const builtIn = /** @type {{ DatabaseSync: new (path: string) => Connection }} */ (
  /** @type {unknown} */ (process.getBuiltinModule('node:sqlite'))
)
const folder = mkdtempSync(join(tmpdir(), 'tenure-node-sqlite-'))
let files = 0

const ways = {
  client: (/** @type {string} */ path) => sqliteStore({ client: new builtIn.DatabaseSync(path) }),
  url: (/** @type {string} */ path) => openStore(pathToFileURL(path).href.replace('file:', 'sqlite:')),
}

let passed = 0
for (const [way, open] of Object.entries(ways)) {
  const cases = storeConformance(
    async () => {
      const path = join(folder, `${++files}.db`)
      const admin = new builtIn.DatabaseSync(path)
      return {
        store: await open(path),
        open: () => open(path),
        remove: (election) => void admin.prepare('DELETE FROM tenure_leases WHERE election = ?').all(election),
      }
    },
    { leaseDurationMs: 500, patienceMs: 20_000 },
  )
  await Promise.all(
    cases.map(async ({ name, run }) => {
      try {
        await run()
        passed++
      } catch (error) {
        console.log(JSON.stringify({ way, name, error: String(error) }))
      }
    }),
  )
}
rmSync(folder, { recursive: true })
console.log(JSON.stringify({ passed: passed > 80 }))
