/**
 * A command that does not know about elections. While it runs, it writes a line every few milliseconds with its term, or
 * its shard and that shard's token, its process id and the machine's clock. Its arguments say what else it does:
 *
 *   --file PATH    where to write
 *   --exit CODE    exits with this code, after --after MS
 *   --stubborn     ignores SIGTERM
 *   --fork HOW     starts another worker: in the same process group, or with "group" in its own
 *   --slow MS      how long it takes to exit after SIGTERM
 */
import { spawn } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    file: { type: 'string', default: 'work' },
    exit: { type: 'string' },
    after: { type: 'string', default: '0' },
    stubborn: { type: 'boolean' },
    fork: { type: 'string' },
    slow: { type: 'string' },
  },
})
/** @param {string} what */
const write = (what) => {
  const at = Number(process.hrtime.bigint() / 1000n) / 1000
  const line = {
    what,
    term: Number(process.env.TENURE_TERM ?? process.env.TENURE_TOKEN),
    pid: process.pid,
    at,
    slot: process.env.TENURE_SCHEDULED_AT,
    shard: process.env.TENURE_SHARD,
    identity: process.env.TENURE_IDENTITY,
  }
  appendFileSync(values.file, `${JSON.stringify(line)}\n`)
}
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT']) {
  process.on(signal, () => {
    write(signal)
    if (values.stubborn || ['SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT'].includes(signal)) return
    if (values.slow) setTimeout(() => process.exit(0), Number(values.slow))
    else {
      process.removeAllListeners(signal)
      process.kill(process.pid, signal)
    }
  })
}
write('begin')
setInterval(() => write('work'), 10)
if (values.exit !== undefined) setTimeout(() => process.exit(Number(values.exit)), Number(values.after))
if (values.fork !== undefined) {
  const args = [import.meta.filename, '--file', values.file, '--stubborn']
  // `timeout` puts itself and its child into their own process group.
  const command = values.fork === 'group' ? ['timeout', '1000', process.execPath] : [process.execPath]
  const [first = '', ...more] = [...command, ...args]
  spawn(first, more, { stdio: 'ignore' }).unref()
}
