import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, onTestFinished, test, vi } from 'vitest'
import { program } from '../../tenure.ts'
import { temporaryFolder, pidsIn, expectNothingLeft } from '../../demo-scene.ts'

const leaseDurationMs = 3_000

function startDemo(folder: string, ...args: string[]) {
  const child = spawn(process.execPath, [program, 'demo', ...args], { env: { ...process.env, TMPDIR: folder } })
  onTestFinished(() => void child.kill('SIGKILL'))
  const output = { text: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output.text += text))
  }
  return { child, output }
}

test('without a terminal the demo shows a takeover for each fault, with rising terms, and exits', async () => {
  const folder = temporaryFolder()
  const { child, output } = startDemo(folder, '--end-after', '13s', '--harm-every', '500ms')
  const [code] = await once(child, 'close')
  const { text } = output
  expect(code, text).toBe(0)

  const terms = [...text.matchAll(/ leads term (\d+)/g)].map(([, term]) => Number(term))
  expect(terms, text).toEqual([...new Set(terms)].toSorted((a, b) => a - b))
  const takeovers = [
    ...text.matchAll(
      /(killed|paused|cut off|stopped) (node-.) \(term (\d+)\) -> (node-.) leads term (\d+) after (\d+) ms/g,
    ),
  ]
  expect(text).toMatch(new RegExp(`^${takeovers.length} takeovers in .*, terms 1 to ${terms.at(-1)} `, 'm'))
  const tookMs = (harm: string) => takeovers.filter(([, how]) => how === harm).map((groups) => Number(groups[6]))
  for (const harm of ['killed', 'paused', 'cut off', 'stopped'])
    expect(tookMs(harm), `${harm}\n${text}`).not.toEqual([])
  // The other candidates notice a death or a release at once, but not a pause or a cut, after which the lease has to
  // expire. Only the first takeover of each kind is checked, because later on so many candidates have a fault that
  // nobody may be left to take over.
  for (const harm of ['killed', 'stopped']) expect(tookMs(harm)[0], text).toBeLessThan(leaseDurationMs / 2)
  for (const ms of [...tookMs('paused'), ...tookMs('cut off')]) expect(ms).toBeGreaterThan(leaseDurationMs / 4)
  expect(text).toMatch(/node-. noticed that it lost term \d+ \(expired\)/)
  expectNothingLeft(folder, pidsIn(text))
})

test('the demo removes its processes and its folder when a signal ends it', async () => {
  const folder = temporaryFolder()
  const { child, output } = startDemo(folder)
  await vi.waitFor(() => expect(output.text).toContain('leads term 1'), { timeout: 10_000 })
  child.kill('SIGTERM')
  const [code] = await once(child, 'close')
  expect(code).toBe(143)
  expectNothingLeft(folder, pidsIn(output.text))
})

test('the demo prints its usage when it is called with invalid options', async () => {
  const { child, output } = startDemo(temporaryFolder(), '--end-after', 'soon')
  const [code] = await once(child, 'close')
  expect(code).toBe(2)
  expect(output.text).toContain('--end-after must be a duration like 500ms, 15s or 1h, not "soon"')
})
