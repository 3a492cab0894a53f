// A process of another user of the machine, controlled by messages. It loads its modules before it drops its
// privileges.
import fs from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { openStore } from 'tenure/stores'
import { fileStore } from 'tenure/stores/file'

const [user = '', group = ''] = process.argv.slice(2)
// The module has no types.
/** @type {string} */
const lockModule = 'fs-native-extensions'
/** @type {{ default: { tryLock(fd: number, options: { shared: boolean }): boolean } }} */
const { default: locks } = await import(lockModule)
const call = () => ({ signal: AbortSignal.timeout(20_000) })

/** The stores load native modules on first use, and another user may not be allowed to read those modules. */
async function warmUp() {
  const directory = fs.mkdtempSync(join(tmpdir(), 'tenure-user-'))
  const database = pathToFileURL(join(directory, 'leases.db')).href.replace('file:', 'sqlite:')
  for (const store of [fileStore({ directory }), await openStore(database)]) {
    await store.acquire(claimOf('nobody'), call())
    await store.close?.()
  }
  fs.rmSync(directory, { recursive: true })
}

/** @param {string} holder */
function claimOf(holder, afterTerm = 0) {
  const attempt = `${holder} ${Math.random()}`
  return { election: 'jobs', holder, attempt, leaseDurationMs: 60_000, afterTerm, metadata: {} }
}

/** @type {import('tenure').LeaseStore} */
let store

/** @type {string[]} */
const warnings = []
process.on('warning', ({ message }) => warnings.push(message))

/** @type {Record<string, (...values: any[]) => unknown>} */
const commands = {
  open: (options) => void (store = fileStore(options)),
  async openUrl(url) {
    store = await openStore(url)
  },
  read: (election) => store.read(election, call()),
  acquire: (holder, afterTerm) => store.acquire(claimOf(holder, afterTerm), call()),
  renew: (record) => store.renew(record, call()),
  release: (record) => store.release(record, call()),
  // Anyone who may read the file can take a shared lock.
  lockShared: (path) => locks.tryLock(fs.openSync(path, 'r'), { shared: true }),
  warnings: () => warnings,
  list: (path) => fs.readdirSync(path),
  makeDirectory: (path, mode) => {
    fs.mkdirSync(path)
    fs.chmodSync(path, mode)
  },
  write: (path, text) => fs.writeFileSync(path, text),
  link: (target, path) => fs.symlinkSync(target, path),
  connect: (path) =>
    new Promise((resolve, reject) => {
      connect({ path }, () => resolve('connected')).on('error', reject)
    }),
}

await warmUp()
process.umask(0o022)
process.setgroups?.([])
process.setgid?.(Number(group))
process.setuid?.(Number(user))

/** @param {{ command: string, values: unknown[] }} message */
async function answer({ command, values }) {
  try {
    process.send?.({ result: await commands[command]?.(...values) })
  } catch (error) {
    const { message, code } = /** @type {NodeJS.ErrnoException} */ (error)
    process.send?.({ error: { message, code } })
  }
}

process.on('message', (/** @type {any} */ message) => void answer(message))
process.send?.({ result: 'ready' })
