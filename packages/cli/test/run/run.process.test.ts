import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { describe, expect, test, vi } from 'vitest'
import { expectNoOverlap, runs, scene, signal, stateOf, type Scene } from './scene.ts'
import { program, serve, temporaryFolder, tenure } from '../tenure.ts'

const sh = (script: string) => ['--', 'sh', '-c', script]
const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('tenure-run-'))

describe('what the command gets', () => {
  test('the command gets the term, the election, the identity and a file that describes the lease', async () => {
    const on = scene()
    const script = 'echo $TENURE_TERM $TENURE_ELECTION $TENURE_IDENTITY; cat $TENURE_FENCE_FILE'
    const { ended, output } = on.run(['--once', '--identity', 'node-17', ...sh(script)])
    expect(await ended).toBe(0)
    const [names, text = ''] = output.out.split('\n')
    expect(names).toBe('1 jobs node-17')
    const lease = JSON.parse(text) as Record<string, number>
    expect(lease).toMatchObject({ election: 'jobs', identity: 'node-17', term: 1 })
    const { leaseEndsAtMs = 0, leaseLeftMs = 0, writtenAtMs = 0 } = lease
    expect(leaseEndsAtMs).toBe(writtenAtMs + leaseLeftMs)
    expect(leaseLeftMs).toBeGreaterThan(5_000)
    expect(leaseLeftMs).toBeLessThan(15_000)
    expect(Math.abs(writtenAtMs - Date.now())).toBeLessThan(60_000)
  })

  test('other candidates see the metadata of the leader', async () => {
    const on = scene()
    const { ended, output } = on.run(
      ['--metadata', 'zone=az-a', '--once', ...sh(`'${process.execPath}' '${program}' leader jobs --json`)],
      { env: { TENURE_STORE: on.store } },
    )
    expect(await ended).toBe(0)
    expect(JSON.parse(output.out)).toMatchObject({ leader: { term: 1, metadata: { zone: 'az-a' } } })
    const large = on.run(['--metadata', `note=${'x'.repeat(5_000)}`, '--once', ...sh('true')])
    expect(await large.ended).toBe(2)
    expect(large.output.error).toMatch(/^tenure: --metadata .*must be a plain JSON object of at most \d+ bytes/)
  })

  test('the default identity contains the host name and the process id', async () => {
    const { child, ended, output } = scene().run(['--once', ...sh('echo $TENURE_IDENTITY')])
    expect(await ended).toBe(0)
    expect(output.out.startsWith(`${hostname()}-${child.pid}-`)).toBe(true)
  })

  test('TENURE_FENCE_FILE is replaced at each renewal and removed after the run', async () => {
    const on = scene()
    const script = `echo $TENURE_FENCE_FILE; while :; do cat $TENURE_FENCE_FILE >> ${on.file}; sleep 0.05; done`
    const { child, ended, output } = on.run(['--ttl', '4s', ...sh(script)])
    const ends = () => new Set(on.lines().map((line) => (line as unknown as { leaseEndsAtMs: number }).leaseEndsAtMs))
    await vi.waitUntil(() => ends().size >= 3, { timeout: 20_000 })
    child.kill('SIGTERM')
    await ended
    expect(on.lines().every(({ term }) => term === 1)).toBe(true)
    const [folder = ''] = /tenure-run-\w+/.exec(output.out) ?? []
    expect(folder).not.toBe('')
    expect(folders()).not.toContain(folder)
  })

  test('the folder of TENURE_FENCE_FILE exists even when temporary folders were removed while tenure waited', async () => {
    const on = scene()
    const temporary = temporaryFolder()
    const first = on.work(['--identity', 'first'])
    await on.wrote('begin')
    const second = on.run(['--once', ...sh('cat $TENURE_FENCE_FILE')], { env: { TMPDIR: temporary } })
    await vi.waitUntil(() => second.output.error.includes('first leads'), { timeout: 20_000 })
    for (const name of readdirSync(temporary)) rmSync(join(temporary, name), { recursive: true })
    first.child.kill('SIGTERM')
    expect(await second.ended).toBe(0)
    expect(JSON.parse(second.output.out)).toMatchObject({ term: 2 })
    expect(readdirSync(temporary)).toEqual([])
  })

  test('the command shares the streams of tenure, so that 100 MB pass through unchanged', async () => {
    const { store } = scene()
    const args = [program, 'run', 'jobs', '--store', store, '--once', '--', 'cat']
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    const chunks = Array.from({ length: 4 }, () => randomBytes(1_000_000))
    const sent = createHash('sha256')
    const input = Readable.from(
      (function* () {
        for (let index = 0; index < 100; index++) {
          const chunk = chunks[(index * 7) % 4] ?? Buffer.alloc(0)
          sent.update(chunk)
          yield chunk
        }
      })(),
    )
    const got = createHash('sha256')
    const ended = once(child, 'close')
    await Promise.all([pipeline(input, child.stdin), pipeline(child.stdout, got)])
    expect(await ended).toEqual([0, null])
    expect(got.digest('hex')).toBe(sent.digest('hex'))
  })

  test('the streams of the command stay blocking while tenure reports something', async () => {
    // With non-blocking output, programs fail with EAGAIN as soon as a pipe is full.
    const { store } = scene()
    const script = 'head -c 10000000 /dev/zero'
    const args = [program, 'run', 'jobs', '--store', store, '--ttl', '10s', '--once', ...sh(script)]
    const child = spawn('sh', ['-c', 'exec "$@" 2>&1', 'sh', process.execPath, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(child.stdout, 'readable')
    await new Promise((resolve) => setTimeout(resolve, 500))
    let zeros = 0
    child.stdout.on('data', (chunk: Buffer) => (zeros += chunk.filter((byte) => byte === 0).length))
    expect(await once(child, 'close')).toEqual([0, null])
    expect(zeros).toBe(10_000_000)
  })
})

describe('the exit code', () => {
  test.each([
    ['0 when the command succeeds', 'exit 0', 0],
    ['that of the command', 'exit 42', 42],
    ['128 + n when signal n ends the command', 'kill -9 $$', 137],
    ['143 when the command ends itself with SIGTERM', 'kill -15 $$', 143],
  ])('the exit code of tenure run is %s', async (_, script, code) => {
    expect(await scene().run(['--restart', 'never', ...sh(script)]).ended).toBe(code)
  })

  test('the exit code is 127 when the command is not found, whatever the restart policy', async () => {
    const { ended, output } = scene().run(['--', 'no-such-command'])
    expect(await ended).toBe(127)
    expect(output).toMatchObject({
      out: '',
      error: expect.stringContaining('command not found: no-such-command') as string,
    })
    expect(output.error).not.toContain('ENOENT')
  })

  test('the exit code is 126 when the command cannot be executed', async () => {
    const on = scene()
    writeFileSync(on.file, 'true', { mode: 0o600 })
    const { ended, output } = on.run(['--', on.file])
    expect(await ended).toBe(126)
    expect(output.error).toContain(`permission denied: ${on.file}`)
  })

  test('the exit code is 75 when leadership is lost with --once', async () => {
    const data = temporaryFolder()
    const served = await serve(data)
    const on = scene(served.url)
    const { ended, output } = on.work(['--ttl', '2s', '--once'])
    await on.wrote('begin')
    signal(served.child.pid ?? 0, 'SIGSTOP')
    expect(await ended).toBe(75)
    signal(served.child.pid ?? 0, 'SIGCONT')
    expect(output.out).toBe('')
    expect(output.error).toContain('was not renewed in time')
  })

  test('the exit code is 69 when the store does not answer', async () => {
    const on = scene('http://127.0.0.1:9')
    const { ended, output } = on.work(['--ttl', '1s', '--store-timeout', '1s'])
    expect(await ended).toBe(69)
    expect(output.error).toMatch(/has not answered within.*ECONNREFUSED/)
    expect(on.lines()).toEqual([])
  })

  test('the exit code is 69 at once when the record of the election is damaged', async () => {
    const on = scene()
    mkdirSync(join(on.folder, 'leases'))
    writeFileSync(join(on.folder, 'leases/jobs.json'), 'no record')
    const { ended, output } = on.work([])
    expect(await ended).toBe(69)
    expect(output.error).toContain('jobs.json')
  })
})

describe('what tenure run rejects with exit code 2 before it starts anything', () => {
  const url = 'file:///nowhere'
  test.each([
    ['a missing store', ['jobs', '--', 'true'], /--store is missing/],
    ['a missing command', ['jobs', '--store', url], /COMMAND is missing\. Put it after --/],
    ['a missing command after --', ['jobs', '--store', url, '--'], /COMMAND is missing\. Put it after --/],
    ['a missing election', ['--store', url, '--', 'echo', 'hi'], /ELECTION is missing\. Put it before --/],
    ['a command without --', ['jobs', '--store', url, 'echo', 'hi'], /The command must come after --.*-- echo hi/],
    ['half a command before --', ['jobs', 'echo', '--store', url, '--', 'hi'], /"echo" is before --/],
    [
      'a time zone without a schedule',
      ['jobs', '--store', url, '--timezone', 'UTC', '--', 'true'],
      /--timezone.*--every/,
    ],
    ['--missed without a schedule', ['jobs', '--store', url, '--missed', 'skip', '--', 'true'], /--missed.*--every/],
    ['an unknown option', ['jobs', '--stroe', url, '--', 'true'], /--store/],
    ['an unknown scheme', ['jobs', '--store', 'flie:///a', '--', 'true'], /"file:"/],
    ['a duration without a unit', ['jobs', '--store', url, '--ttl', '15', '--', 'true'], /"15s"/],
    [
      'a grace period that is too long',
      ['jobs', '--store', url, '--grace', '4s', '--', 'true'],
      /--grace 3s or less, or --ttl 20s/,
    ],
    [
      'a lease that is too short',
      ['jobs', '--store', url, '--ttl', '400ms', '--', 'true'],
      /266ms.*80ms.*100ms.*446ms.*392ms/,
    ],
    ['an invalid election name', ['a\nb', '--store', url, '--', 'true'], /ELECTION must be/],
    ['contradictory rules', ['jobs', '--store', url, '--once', '--restart', 'always', '--', 'true'], /--once exits/],
    [
      'a wait without a limit on runs',
      ['jobs', '--store', url, '--no-wait', '--', 'true'],
      /--no-wait requires --once/,
    ],
    [
      'a wait for a command that is retried',
      ['jobs', '--store', url, '--once', '--wait', '1s', '--restart', 'on-failure', '--', 'true'],
      /--wait limits.*on-failure/,
    ],
    ['an unknown restart rule', ['jobs', '--store', url, '--restart', 'allways', '--', 'true'], /"always"/],
    [
      'a runtime limit without a job',
      ['jobs', '--store', url, '--max-runtime', '1s', '--', 'true'],
      /--max-runtime.*--every/,
    ],
    [
      'two schedules',
      ['jobs', '--store', url, '--every', '@hourly', '--at-most-once-per', '1h', '--', 'a'],
      /exclusive/,
    ],
    [
      'an invalid cron expression',
      ['jobs', '--store', url, '--every', '61 * * * *', '--', 'true'],
      /--every must be.*minute: 61/,
    ],
    ['a time that never comes', ['jobs', '--store', url, '--every', '0 0 31 2 *', '--', 'true'], /some day/],
    [
      'an unknown time zone',
      ['jobs', '--store', url, '--every', '@daily', '--timezone', 'Mars', '--', 'true'],
      /--timezone must/,
    ],
  ])('tenure run rejects %s', async (_, args, message) => {
    const { ended, output } = tenure(['run', ...args])
    expect(await ended).toBe(2)
    expect(output.out).toBe('')
    expect(output.error).toMatch(message)
  })
})

describe('when the command exits', () => {
  test('the lease is released as soon as the command exits, and the next machine leads', async () => {
    const on = scene()
    const first = on.work(['--ttl', '60s', '--restart', 'never'], ['--exit', '3', '--after', '300'])
    await on.wrote('begin')
    const second = on.work(['--ttl', '60s', '--restart', 'never'], ['--exit', '0', '--after', '300'])
    expect(await first.ended).toBe(3)
    expect(await second.ended).toBe(0)
    expect(expectNoOverlap(on.lines())).toEqual([1, 2])
  })

  test('the command is restarted by default, after growing delays, each time in a new term', async () => {
    const on = scene()
    const { output } = on.work(['--restart-delay', '100ms'], ['--exit', '0'])
    await on.wrote('begin', 4)
    expect(expectNoOverlap(on.lines()).slice(0, 4)).toEqual([1, 2, 3, 4])
    expect(
      [...output.error.matchAll(/restarting the command in (\w+)/g)].map(([, delay]) => delay).slice(0, 3),
    ).toEqual(['100ms', '200ms', '400ms'])
  })

  test('with --hold the command is restarted in the same term', async () => {
    const on = scene()
    on.work(['--restart-delay', '50ms', '--hold'], ['--exit', '1'])
    await vi.waitUntil(() => on.lines().filter(({ what }) => what === 'begin').length >= 3, { timeout: 20_000 })
    expect(new Set(on.lines().map(({ term }) => term))).toEqual(new Set([1]))
  })

  test('with --hold tenure exits with 0 on a signal during the restart delay', async () => {
    const { child, ended, output } = scene().work(['--restart-delay', '1m', '--hold'], ['--exit', '3'])
    await vi.waitUntil(() => output.error.includes('restarting the command'), { timeout: 20_000 })
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  })

  test('a failed write of TENURE_FENCE_FILE is reported once, and not as a problem of the store', async () => {
    const on = scene()
    const temporary = temporaryFolder()
    const { output } = on.work(['--ttl', '4s'], [], { env: { TMPDIR: temporary } })
    await on.wrote('begin')
    rmSync(temporary, { recursive: true })
    const told = 'Cannot write TENURE_FENCE_FILE'
    await vi.waitUntil(() => output.error.includes(told), { timeout: 20_000 })
    const renewals = new Set<string>()
    const record = join(on.folder, 'leases/jobs.json')
    await vi.waitUntil(() => renewals.add(readFileSync(record, 'utf8')).size > 3, { timeout: 20_000, interval: 10 })
    expect(output.error.split(told)).toHaveLength(2)
    expect(output.error).not.toMatch(/Cannot write TENURE_FENCE_FILE.*\n.*the store answers again/)
  })

  test('with --quiet only problems are reported', async () => {
    const on = scene()
    const good = on.work(['--quiet', '--once'], ['--exit', '0'])
    expect([await good.ended, good.output.error]).toEqual([0, ''])
    const bad = on.work(['--quiet', '--restart', 'never'], ['--exit', '3'])
    expect([await bad.ended, bad.output.error]).toEqual([3, 'tenure: the command exited with 3\n'])
  })

  test('with --hold the lease is kept until tenure is stopped, even when the command is not restarted', async () => {
    const on = scene()
    const { child, ended, output } = on.work(['--hold', '--restart', 'never', '--ttl', '3s'], ['--exit', '7'])
    await vi.waitUntil(() => output.error.includes('exited with 7'), { timeout: 20_000 })
    const other = on.work(['--ttl', '3s'])
    await vi.waitUntil(() => other.output.error.includes('waiting'), { timeout: 20_000 })
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    expect(new Set(on.lines().map(({ term }) => term))).toEqual(new Set([1]))
    child.kill('SIGTERM')
    expect(await ended).toBe(7)
    await on.wrote('begin', 2)
  })

  test('with --once a failed command is not retried, so a failing deploy does not hang', async () => {
    const on = scene()
    const { ended, output } = on.run(['--once', ...sh(`echo x >> ${on.file}; exit 3`)])
    expect(await ended).toBe(3)
    expect(readFileSync(on.file, 'utf8')).toBe('x\n')
    expect(output.error).not.toContain('restarting')
    const killed = on.run(['--once', ...sh('kill -9 $$')])
    expect(await killed.ended).toBe(137)
  })

  test('with --wait or --no-wait the command is not started while another machine leads, and tenure exits with 75', async () => {
    const on = scene()
    const first = on.work(['--identity', 'first'])
    await on.wrote('begin')
    const command = ['--once', ...sh(`echo started >> ${on.file}.other`)]
    const [tried, waited] = [on.run(['--no-wait', ...command]), on.run(['--wait', '500ms', ...command])]
    expect(await tried.ended).toBe(75)
    expect(tried.output.error).toContain('"first" leads "jobs" in term 1. The command was not started.')
    expect(await waited.ended).toBe(75)
    expect(waited.output.error).toContain('and still did after --wait 500ms. The command was not started.')
    expect(existsSync(`${on.file}.other`)).toBe(false)
    const patient = on.run(['--wait', '10m', ...command])
    await vi.waitUntil(() => patient.output.error.includes('waiting'), { timeout: 20_000 })
    first.child.kill('SIGTERM')
    expect(await patient.ended).toBe(0)
    expect(readFileSync(`${on.file}.other`, 'utf8')).toBe('started\n')
  })

  test('with --once and --restart on-failure the command is retried until it succeeds', async () => {
    const on = scene()
    const script = `echo x >> ${on.file}; test $(wc -l < ${on.file}) = 3`
    const { ended } = on.run(['--once', '--restart', 'on-failure', '--restart-delay', '50ms', ...sh(script)])
    expect(await ended).toBe(0)
    expect(readFileSync(on.file, 'utf8')).toBe('x\nx\nx\n')
  })

  test('processes that the command leaves behind have exited before another machine leads', async () => {
    const on = scene()
    const first = on.work(
      ['--ttl', '15s', '--grace', '600ms', '--restart', 'never'],
      ['--fork', 'same', '--exit', '0', '--after', '500'],
    )
    await on.wrote('begin')
    const second = on.work(
      ['--ttl', '15s', '--grace', '600ms', '--restart', 'never'],
      ['--exit', '0', '--after', '300'],
    )
    expect(await first.ended).toBe(0)
    expect(await second.ended).toBe(0)
    expect(new Set(on.lines().map(({ pid }) => pid)).size).toBe(3)
    expect(on.lines().some(({ what }) => what === 'SIGTERM')).toBe(true)
    expect(expectNoOverlap(on.lines())).toEqual([1, 2])
  })
})

describe('a signal to tenure', () => {
  async function working(worker: readonly string[] = [], args: readonly string[] = []) {
    const on = scene()
    const wrapper = on.work(args, worker)
    const { pid } = await on.wrote('begin')
    return { on, pid, ...wrapper }
  }
  const heard = (on: Scene) => on.lines().flatMap(({ what }) => (what.startsWith('SIG') ? [what] : []))

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    '%s to tenure reaches the command once and ends both',
    async (name) => {
      const { on, child, ended } = await working()
      child.kill(name)
      expect(await ended).toBe({ SIGTERM: 143, SIGINT: 130, SIGHUP: 129 }[name])
      expect(heard(on)).toEqual([name])
      const next = on.work(['--ttl', '60s', '--once'], ['--exit', '0'])
      expect(await next.ended).toBe(0)
    },
  )

  test('a command that drains slowly keeps its lease until it has exited', async () => {
    const { on, child, ended } = await working(['--slow', '4500'], ['--ttl', '3s'])
    child.kill('SIGTERM')
    await on.wrote('SIGTERM')
    const other = on.work(['--ttl', '3s', '--once'], ['--exit', '0'])
    expect(await ended).toBe(0)
    expect(await other.ended).toBe(0)
    expect(heard(on)).toEqual(['SIGTERM'])
    expect(expectNoOverlap(on.lines())).toEqual([1, 2])
  })

  test('a second signal kills the command', async () => {
    const { on, pid, child, ended } = await working(['--stubborn'])
    child.kill('SIGTERM')
    await on.wrote('SIGTERM')
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(runs(pid)).toBe(true)
    child.kill('SIGTERM')
    expect(await ended).toBe(137)
    expect(heard(on)).toEqual(['SIGTERM'])
  })

  test('two signals at once count as one, because npx forwards what the terminal sent to both', async () => {
    const { on, child, ended } = await working(['--slow', '500'])
    child.kill('SIGINT')
    child.kill('SIGINT')
    expect(await ended).toBe(0)
    expect(heard(on)).toEqual(['SIGINT'])
  })

  test('a command that ignores SIGTERM is killed after the drain timeout', async () => {
    const { child, ended } = await working(['--stubborn'], ['--drain-timeout', '300ms'])
    child.kill('SIGTERM')
    expect(await ended).toBe(137)
  })

  test('tenure reports how long the command has to exit, and reports that a second signal kills the command', async () => {
    const { child, ended, output } = await working(['--stubborn'], ['--drain-timeout', '1m'])
    child.kill('SIGTERM')
    await vi.waitUntil(() => output.error.includes('got SIGTERM: the command has 1m to exit'), { timeout: 20_000 })
    await new Promise((resolve) => setTimeout(resolve, 300))
    child.kill('SIGTERM')
    expect(await ended).toBe(137)
    expect(output.error).toContain('got SIGTERM again: killing the command')
  })

  test('a standby exits with 0 on SIGTERM', async () => {
    const { on } = await working()
    const standby = on.work([])
    await vi.waitUntil(() => standby.output.error.includes('waiting'), { timeout: 20_000 })
    standby.child.kill('SIGTERM')
    expect(await standby.ended).toBe(0)
  })

  test('a standby reports that the leader has the same identity', async () => {
    const on = scene()
    on.work(['--identity', 'twin'])
    await on.wrote('begin')
    const { output } = on.work(['--identity', 'twin'])
    await vi.waitUntil(() => /twin leads "jobs".*Give each process its own --identity/.test(output.error), {
      timeout: 20_000,
    })
  })

  test.each([
    ['--once', 'SIGTERM', 143],
    ['--once', 'SIGINT', 130],
    ['--at-most-once-per=1h', 'SIGTERM', 143],
  ] as const)('a standby with %s that gets %s exits with %d', async (task, name, code) => {
    const { on } = await working()
    const standby = on.work([task])
    await vi.waitUntil(() => standby.output.error.includes('waiting'), { timeout: 20_000 })
    standby.child.kill(name)
    expect(await standby.ended).toBe(code)
  })

  test.each([
    ['SIGTERM', 0],
    ['SIGINT', 130],
  ] as const)('tenure that gets %s between two scheduled times exits with %d', async (name, code) => {
    const { child, ended, output } = scene().work(['--every', '0 0 1 1 *'])
    await vi.waitUntil(() => output.error.includes('the next run is at'), { timeout: 20_000 })
    child.kill(name)
    expect(await ended).toBe(code)
  })

  test('a second SIGHUP does not kill the command', async () => {
    const { on, child, ended } = await working(['--slow', '1000'])
    child.kill('SIGHUP')
    await on.wrote('SIGHUP')
    await new Promise((resolve) => setTimeout(resolve, 300))
    child.kill('SIGHUP')
    expect(await ended).toBe(0)
  })

  test.each(['SIGUSR1', 'SIGUSR2'] as const)('the supervisor ignores %s', async (name) => {
    const { on, child, pid, supervisor, ended } = await working()
    signal(supervisor(), name)
    const count = on.lines().length
    await vi.waitUntil(() => on.lines().length > count + 20, { timeout: 10_000 })
    expect(runs(supervisor()) && runs(pid)).toBe(true)
    child.kill('SIGTERM')
    expect(await ended).toBe(143)
  })

  test.each(['SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const)(
    '%s is forwarded to the command, and nothing else happens',
    async (name) => {
      const { on, pid, child } = await working()
      child.kill(name)
      await on.wrote(name)
      expect(runs(pid)).toBe(true)
      expect(heard(on)).toEqual([name])
    },
  )

  test('SIGTERM to all processes of a unit, as a service manager sends it, ends them gracefully', async () => {
    const { on, pid, child, supervisor, ended } = await working(['--slow', '300'])
    const parent = supervisor()
    for (const each of [parent, pid, child.pid ?? 0]) signal(each, 'SIGTERM')
    expect(await ended).toBe(0)
    expect(runs(parent)).toBe(false)
    expect(await on.work(['--once', '--ttl', '60s'], ['--exit', '0']).ended).toBe(0)
  })

  test('SIGTSTP also stops the command, and SIGCONT continues both', async () => {
    const { on, child, pid } = await working()
    child.kill('SIGTSTP')
    await vi.waitUntil(() => stateOf(pid) === 'T' && stateOf(child.pid ?? 0) === 'T', { timeout: 10_000 })
    child.kill('SIGCONT')
    await vi.waitUntil(() => stateOf(pid) !== 'T', { timeout: 10_000 })
    const count = on.lines().length
    await vi.waitUntil(() => on.lines().length > count + 3, { timeout: 10_000 })
  })
})
