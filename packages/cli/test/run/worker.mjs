/**
 * A command that leads without knowing it. While it runs it writes a line every few milliseconds: its term, its process
 * id and the machine's clock. What it does else is said by its arguments.
 *
 *   --file PATH    where to write
 *   --exit CODE    ends by itself with this code, after --after MS
 *   --stubborn     ignores SIGTERM
 *   --fork HOW     starts another one that works too: in its group, or in a "group" of its own
 *   --slow MS      takes so long to end after SIGTERM
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
    term: Number(process.env.TENURE_TERM),
    pid: process.pid,
    at,
    slot: process.env.TENURE_SCHEDULED_AT,
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
  // `timeout` puts itself and what it starts into a group of their own.
  const command = values.fork === 'group' ? ['timeout', '1000', process.execPath] : [process.execPath]
  const [first = '', ...more] = [...command, ...args]
  spawn(first, more, { stdio: 'ignore' }).unref()
}
