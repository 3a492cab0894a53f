import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { inTerminal, openTerminal } from './terminal.ts'
import { program } from './tenure.ts'

const leaseDurationMs = 3_000

/** Where the demo puts its folder, so that what it leaves behind can be seen. */
function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-demo-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

function startDemo(folder: string, ...args: string[]) {
  const child = spawn(process.execPath, [program, 'demo', ...args], { env: { ...process.env, TMPDIR: folder } })
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
  const { child, output } = startDemo(folder, '--end-after', '13s', '--harm-every', '500ms')
  const [code] = await once(child, 'exit')
  const { text } = output
  expect(code, text).toBe(0)

  const terms = [...text.matchAll(/ leads term (\d+)/g)].map(([, term]) => Number(term))
  expect(terms, text).toEqual([...new Set(terms)].toSorted((a, b) => a - b))
  const takeovers = [
    ...text.matchAll(
      /(killed|paused|cut off|stopped) (node-.) \(term (\d+)\) -> (node-.) leads term (\d+) after (\d+) ms/g,
    ),
  ]
  expect(text).toMatch(new RegExp(`^${takeovers.length} take-overs in .*, terms 1 to ${terms.at(-1)} `, 'm'))
  const tookMs = (harm: string) => takeovers.filter(([, how]) => how === harm).map((groups) => Number(groups[6]))
  for (const harm of ['killed', 'paused', 'cut off', 'stopped'])
    expect(tookMs(harm), `${harm}\n${text}`).not.toEqual([])
  // A death and a release are noticed; a pause or a cut looks like neither, so the lease has to run out. Of each only
  // the first: after that so many have been harmed that nobody may be there to take over.
  for (const harm of ['killed', 'stopped']) expect(tookMs(harm)[0], text).toBeLessThan(leaseDurationMs / 2)
  for (const ms of [...tookMs('paused'), ...tookMs('cut off')]) expect(ms).toBeGreaterThan(leaseDurationMs / 4)
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
  const { child, output } = startDemo(temporaryFolder(), '--end-after', 'soon')
  const [code] = await once(child, 'exit')
  expect(code).toBe(2)
  expect(output.text).toContain('--end-after must be a duration like 500ms, 15s or 1h, not "soon"')
})

inTerminal('in a terminal the view shows a take-over when k is pressed, and q gives the terminal back', async () => {
  const folder = temporaryFolder()
  const command = `'${process.execPath}' '${program}' demo --harm-every 1m; echo "exit code $?"; stty -a; cat`
  const terminal = openTerminal(command, { env: { TMPDIR: folder } })
  const { shown } = terminal

  await shown(/node-. +\d+ +LEADER +1 +[█░]+ \d\.\d s/)
  await shown(/(node-. +\d+ +standby[^]*){2}/)
  expect(terminal.modes()).toBe('010')

  terminal.press('k')
  await shown(/killed (node-.) \(term 1\) -> node-. leads term 2 after \d+ ms/)
  await shown(/node-. +\d+ +LEADER +2 /)
  await shown(/(starts as process[^]*){4}/)
  terminal.press('c')
  await shown(/node-. +\d+ +cut off +2 /)
  await shown(/node-.: hears nothing, and does not lead/)
  await shown(/cut off (node-.) \(term 2\) -> node-. leads term 3 after \d+ ms/)
  await shown(/node-. reaches its store again after 4\.5 s/)
  terminal.press('p')
  await shown(/node-. +\d+ +paused +3 /)
  const pids = pidsIn(terminal.screen())

  terminal.press('q')
  await shown(/2 take-overs in [^]*exit code 0[^]*\bicanon\b/)
  expect(terminal.screen()).not.toMatch(/-icanon|-echo\b/)
  expect(terminal.modes()).toBe('101')
  expectNothingLeft(folder, pids)
})

inTerminal('a terminal of 80 columns and 24 rows shows every line to its end', async () => {
  const command = `'${process.execPath}' '${program}' demo --harm-every 2s`
  const terminal = openTerminal(command, { columns: 80, rows: 24, env: { TMPDIR: temporaryFolder() } })
  await terminal.shown(/^Tenure: .* no server runs\)$/m)
  await terminal.shown(/^node-.: leads term 1: \d\.\d s unless renewed$/m)
  await terminal.shown(/^node-.: waits for node-., term 1: \d\.\d s unless renewed$/m)
  await terminal.shown(/by itself: kill in \d\.\d s$/m)
  await terminal.shown(/killed node-. \(term 1\) -> node-. leads term 2 after \d+ ms$/m)
  await terminal.shown(/paused node-., the leader of term 2: its lease must run out$/m)
  expect(terminal.screen().split('\n')[0]).toMatch(/^Tenure: /)
  terminal.press('q')
})
