import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { find } from './servers/find.ts'
import { programs } from './servers/programs.ts'

const demo = join(import.meta.dirname, '../examples/demo/demo.js')
const leaseDurationMs = 3_000

/** Where the demo puts its folder, so that what it leaves behind can be seen. */
function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-demo-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

function startDemo(folder: string, ...args: string[]) {
  const child = spawn(process.execPath, [demo, ...args], { env: { ...process.env, TMPDIR: folder } })
  onTestFinished(() => void child.kill('SIGKILL'))
  const output = { text: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output.text += text))
  }
  return { child, output }
}

const pidsIn = (text: string) => [...text.matchAll(/starts as process (\d+)/g)].map(([, pid]) => Number(pid))

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

function expectNothingLeft(folder: string, pids: number[]): void {
  expect(pids.length).toBeGreaterThanOrEqual(3)
  expect(pids.filter(isRunning)).toEqual([])
  expect(readdirSync(folder)).toEqual([])
}

test('without a terminal the demo shows a take-over for each harm, with rising terms, and ends by itself', async () => {
  const folder = temporaryFolder()
  const { child, output } = startDemo(folder, '--seconds', '9', '--every', '0.5')
  const [code] = await once(child, 'exit')
  const { text } = output
  expect(code, text).toBe(0)

  const terms = [...text.matchAll(/ leads term (\d+)/g)].map(([, term]) => Number(term))
  expect(terms, text).toEqual([...new Set(terms)].toSorted((a, b) => a - b))
  const takeovers = [...text.matchAll(/(\w+) (node-.) \(term (\d+)\) -> (node-.) leads term (\d+) after (\d+) ms/g)]
  expect(text).toMatch(new RegExp(`^${takeovers.length} take-overs in .*, terms 1 to ${terms.at(-1)} `, 'm'))
  const tookMs = (harm: string) => takeovers.filter(([, how]) => how === harm).map((groups) => Number(groups[6]))
  for (const harm of ['killed', 'paused', 'stopped']) expect(tookMs(harm), `${harm}\n${text}`).not.toEqual([])
  // A death and a release are noticed; a pause looks like neither, so its lease has to run out.
  for (const ms of [...tookMs('killed'), ...tookMs('stopped')]) expect(ms).toBeLessThan(leaseDurationMs / 2)
  for (const ms of tookMs('paused')) expect(ms).toBeGreaterThan(leaseDurationMs / 4)
  expect(text).toMatch(/node-. knows that it lost term \d+ \(expired\)/)
  expectNothingLeft(folder, pidsIn(text))
})

test('a demo that is told to end takes its processes and its folder with it', async () => {
  const folder = temporaryFolder()
  const { child, output } = startDemo(folder)
  await vi.waitFor(() => expect(output.text).toContain('leads term 1'), { timeout: 10_000 })
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  expect(code).toBe(143)
  expectNothingLeft(folder, pidsIn(output.text))
})

test('the demo says how it is called when it is called wrongly', async () => {
  const { child, output } = startDemo(temporaryFolder(), '--seconds', 'soon')
  const [code] = await once(child, 'exit')
  expect(code).toBe(2)
  expect(output.text).toContain('--seconds must be a number of seconds, not "soon"')
})

/** A terminal of its own, in a tmux server of its own. */
function openTerminal(tmux: string, folder: string, command: string, { columns = 120, rows = 40 } = {}) {
  const socketFolder = mkdtempSync(join(tmpdir(), 'tenure-tmux-'))
  const run = (...args: string[]) =>
    execFileSync(tmux, ['-S', join(socketFolder, 'socket'), '-f', '/dev/null', ...args], {
      encoding: 'utf8',
      env: { ...process.env, TMPDIR: folder, LC_ALL: 'C.UTF-8' },
    })
  run('new-session', '-d', '-x', `${columns}`, '-y', `${rows}`, command)
  onTestFinished(() => {
    try {
      run('kill-server')
    } catch {
      // It ends by itself with its last program, which the test may have just ended.
    }
    rmSync(socketFolder, { recursive: true, force: true })
  })
  return {
    screen: () => run('capture-pane', '-p'),
    press: (key: string) => run('send-keys', key),
    modes: () => run('display-message', '-p', '#{cursor_flag}#{alternate_on}#{wrap_flag}').trim(),
  }
}

async function waitFor({ screen }: { screen: () => string }, pattern: RegExp): Promise<void> {
  const options = { timeout: 10_000, interval: 50 }
  await vi
    .waitUntil(() => pattern.exec(screen()), options)
    .catch(() => {
      throw new Error(`${pattern} never appeared:\n${screen()}`)
    })
}

const tmux = find(programs.tmux)

test.skipIf('missing' in tmux && process.env['CI'] !== 'true')(
  'in a terminal the view shows a take-over when k is pressed, and q gives the terminal back',
  async () => {
    if ('missing' in tmux) throw new Error(tmux.missing)
    const folder = temporaryFolder()
    const command = `'${process.execPath}' '${demo}' --every 60; echo "exit code $?"; stty -a; cat`
    const terminal = openTerminal(tmux.path, folder, command)
    const shown = (pattern: RegExp) => waitFor(terminal, pattern)

    await shown(/node-. +\d+ +LEADER +1 +[█░]+ \d\.\d s/)
    await shown(/(node-. +\d+ +standby[^]*){2}/)
    expect(terminal.modes()).toBe('010')

    terminal.press('k')
    await shown(/killed (node-.) \(term 1\) -> node-. leads term 2 after \d+ ms/)
    await shown(/node-. +\d+ +LEADER +2 /)
    await shown(/(starts as process[^]*){4}/)
    terminal.press('p')
    await shown(/node-. +\d+ +paused +2 /)
    const pids = pidsIn(terminal.screen())

    terminal.press('q')
    await shown(/1 take-over in [^]*Next: npm test[^]*exit code 0[^]*\bicanon\b/)
    expect(terminal.screen()).not.toMatch(/-icanon|-echo\b/)
    expect(terminal.modes()).toBe('101')
    expectNothingLeft(folder, pids)
  },
)

test.skipIf('missing' in tmux && process.env['CI'] !== 'true')(
  'a terminal of 80 columns and 24 rows shows every line to its end',
  async () => {
    if ('missing' in tmux) throw new Error(tmux.missing)
    const command = `'${process.execPath}' '${demo}' --every 2`
    const terminal = openTerminal(tmux.path, temporaryFolder(), command, { columns: 80, rows: 24 })
    await waitFor(terminal, /^Tenure: .* no server runs\)$/m)
    await waitFor(terminal, /^node-.: leads term 1: \d\.\d s unless renewed$/m)
    await waitFor(terminal, /^node-.: waits for node-., term 1: \d\.\d s unless renewed$/m)
    await waitFor(terminal, /by itself: kill in \d\.\d s$/m)
    await waitFor(terminal, /killed node-. \(term 1\) -> node-. leads term 2 after \d+ ms$/m)
    await waitFor(terminal, /paused node-., the leader of term 2: its lease must run out$/m)
    expect(terminal.screen().split('\n')[0]).toMatch(/^Tenure: /)
    terminal.press('q')
  },
)
