import { existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scene } from './scene.ts'

const patience = { timeout: 20_000, interval: 20 }

test('tenure run leads only while the --eligible-file exists', async () => {
  const on = scene()
  const file = join(on.folder, 'may-lead')
  const one = on.work(['--ttl', '2s', '--eligible-file', file])
  const other = on.work(['--ttl', '2s', '--eligible-file', join(on.folder, 'never')])
  writeFileSync(file, '')
  const { term } = await on.wrote('begin')
  expect(term).toBe(1)
  rmSync(file)
  await on.wrote('SIGTERM')
  await expect
    .poll(() => one.output.error, patience)
    .toContain('ended: this process was no longer eligible to lead. The command gets SIGTERM.')
  writeFileSync(file, '')
  await on.wrote('begin', 2)
  for (const { child, ended } of [one, other]) {
    child.kill('SIGTERM')
    await ended
  }
  expect(on.lines().filter(({ what }) => what === 'begin')).toHaveLength(2)
})

test('tenure run leads only while the --eligible command exits with 0, and says why it does not lead', async () => {
  const on = scene()
  const file = join(on.folder, 'may-lead')
  const one = on.work(['--ttl', '2s', '--eligible', `test -f '${file}' || exit 3`])
  await expect.poll(() => one.output.error, patience).toContain('not eligible: the --eligible command exited with 3')
  expect(on.lines()).toEqual([])
  writeFileSync(file, '')
  await on.wrote('begin')
  expect(one.output.error).toContain('eligible: the --eligible command succeeded')
  one.child.kill('SIGTERM')
  await one.ended
})

test('an --eligible command that hangs counts as failed, is killed with its processes, and does not delay the exit', async () => {
  const on = scene()
  const file = join(on.folder, 'pids')
  const one = on.work(['--ttl', '1s', '--eligible', `trap '' TERM; sleep 60 & echo $$ $! >> '${file}'; wait`])
  await expect
    .poll(() => one.output.error, patience)
    .toMatch(/not eligible: the --eligible command did not end within \d+ms/)
  const pids = () => (existsSync(file) ? (readFileSync(file, 'utf8').match(/\d+/g) ?? []).map(Number) : [])
  // A busy machine may end a check before the shell has written its line.
  await expect.poll(() => pids().length, patience).toBeGreaterThan(0)
  one.child.kill('SIGTERM')
  await one.ended
  expect(on.lines()).toEqual([])
  await expect.poll(() => pids().filter(isRunning), patience).toEqual([])
})

/** A killed process stays a zombie until its parent, or init, has read its status. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

test('tenure run steps down as stalled when its command does not touch --progress-file', async () => {
  const on = scene()
  const file = join(on.folder, 'progress')
  const args = ['--ttl', '2s', '--progress-file', file, '--progress-timeout', '1s', '--', 'sh', '-c']
  const loop = 'i=0; while :; do touch "$TENURE_PROGRESS_FILE"; i=$((i+1)); echo "round $i"; sleep 0.2; done'
  const busy = on.run([...args, loop])
  // That is longer than the timeout.
  await expect.poll(() => busy.output.out, patience).toContain('round 12\n')
  expect(busy.output.error).not.toContain('progress in time')
  busy.child.kill('SIGTERM')
  await busy.ended
  const stuck = on.run([...args, 'echo begin; exec sleep 60'])
  await expect
    .poll(() => stuck.output.error, patience)
    .toContain('ended: its work did not report progress in time. The command gets SIGTERM.')
  stuck.child.kill('SIGTERM')
  await stuck.ended
})

test('a --progress-file that cannot be read counts as not touched and is reported once', async () => {
  const on = scene()
  const file = join(on.folder, 'progress')
  symlinkSync(file, file)
  const args = ['--ttl', '2s', '--progress-file', file, '--progress-timeout', '1s', '--', 'sleep', '60']
  const { child, ended, output } = on.run(args)
  await expect
    .poll(() => output.error, patience)
    .toContain('ended: its work did not report progress in time. The command gets SIGTERM.')
  child.kill('SIGTERM')
  await ended
  expect(output.error.match(/--progress-file cannot be read, so it counts as not touched: ELOOP/g)).toHaveLength(1)
})

test.each([
  [['--priority', 'high'], /--priority must be one of normal, low, lowest, not "high"/],
  [['--progress-file', 'progress'], /--progress-file requires --progress-timeout\./],
  [['--progress-timeout', '5s'], /--progress-timeout requires --progress-file\./],
])('tenure run rejects %j', async (args, message) => {
  const { ended, output } = scene().run([...args, '--', 'true'])
  expect(await ended).toBe(2)
  expect(output.error).toMatch(message)
})
