import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { linesOf, program, run, temporaryFolder, tenure } from '../tenure.ts'
import { strange } from '../fake-service.ts'

// Sequences that set a title, clear the screen, change the color and reverse the text, in their 8-bit and 7-bit forms.
const escapes = '\u001b]0;title\u0007\u001b[2J\u009b31m\u202e'
// oxlint-disable-next-line no-control-regex
const unprintable = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/

function leader(more: object = {}) {
  return {
    node_id: `x${escapes}`,
    attempt: 'a',
    term: 3,
    lease_ttl_ms: 15_000,
    lease_remaining_ms: 9_000,
    acquired_at_ms: 0,
    renewed_at_ms: Date.now(),
    metadata: { note: escapes },
    checkpoint: '',
    version: '1',
    ...more,
  }
}

describe('text from others does not control the terminal', () => {
  const led = () => strange((_, answer) => answer({ is_leader: false, leader: leader(), highest_term: 3 }))

  test.for([
    [['leader', 'jobs', '--store']],
    [['leader', 'jobs', '--json', '--store']],
    [['campaign', 'jobs', '--url']],
    [['doctor', '--store']],
  ])('the command %j prints text from others without control characters', async ([args = []]) => {
    const { out, error } = await run([...args, await led()])
    expect(`${out}${error}`).toContain('title')
    expect(`${out}${error}`).not.toMatch(unprintable)
  })

  test('the name of the last leader does not control the terminal', async () => {
    const url = await strange((_, answer) => answer({ leader: null, previous_leader: leader(), highest_term: 3 }))
    const { out } = await run(['leader', 'jobs', '--store', url])
    expect(out).toMatch(/^Nobody leads "jobs"\. x.*title.* led last, in term 3\.\n$/)
    expect(out).not.toMatch(unprintable)
  })

  test('the name of a leader that tenure run waits for does not control the terminal', async () => {
    const { child, output, ended } = tenure(['run', 'jobs', '--store', await led(), '--', 'true'])
    await expect.poll(() => output.error, { timeout: 20_000 }).toContain('waiting')
    child.kill()
    await ended
    expect(output.error).toContain('title')
    expect(output.error).not.toMatch(unprintable)
  })

  test('JSON output contains text from others in escaped form', async () => {
    const { out } = await run(['leader', 'jobs', '--json', '--store', await led()])
    expect(linesOf(out)).toMatchObject([{ leader: { holder: `x${escapes}`, metadata: { note: escapes } } }])
  })
})

describe('a command exits with 69 after a malformed answer', () => {
  test('tenure groups exits with 69 when the service repeats a page', async () => {
    const url = await strange((_, answer) => answer({ groups: [], next: 'again' }))
    const { code, error } = await run(['groups', '--url', url, '--json'])
    expect({ code, error }).toMatchObject({
      code: 69,
      error: expect.stringContaining('repeats the same page') as string,
    })
  })

  test.for([
    [['members', 'jobs'], { members: [null] }],
    [['groups'], { groups: [{ group_id: 'jobs', leader: 'x' }] }],
    [['campaign', 'jobs'], { is_leader: true, leader: { node_id: 'x', term: 'one', lease_remaining_ms: 1 } }],
    [['resign', 'jobs', '--term', '1'], { ok: false, current_leader: 7 }],
  ] as const)('the command %j exits with 69 after the malformed answer %j', async ([args, body]) => {
    const { code, out, error } = await run([...args, '--url', await strange((_, answer) => answer(body))])
    expect({ code, out }).toEqual({ code: 69, out: '' })
    expect(error).toMatch(/^tenure: The service sent a malformed answer: .*\.\n$/)
  })
})

test('the remaining lease time is the one that the service reports, whatever the wall clock of the service shows', async () => {
  const hourAgo = { node_id: 'a', acquired_at_ms: Date.now() - 3_600_000, renewed_at_ms: Date.now() - 3_600_000 }
  const url = await strange((_, answer) => answer({ leader: leader(hourAgo), highest_term: 3 }))
  const { out } = await run(['leader', 'jobs', '--store', url, '--json'])
  expect(linesOf(out)).toMatchObject([{ leader: { holder: 'a', remainingMs: 9_000 } }])
})

test('campaign --wait does not flood a service that answers at once instead of letting it wait', async () => {
  let asked = 0
  const url = await strange((_, answer) => {
    asked += 1
    answer({ is_leader: false, leader: leader(), highest_term: 3 })
  })
  expect(await run(['campaign', 'jobs', '--url', url, '--wait', '1500ms'])).toMatchObject({ code: 1 })
  expect(asked).toBeLessThanOrEqual(3)
})

describe('when the reader of the output is gone', () => {
  const commands = [
    [['--help'], 0],
    [['completion', 'bash'], 0],
    [['leader', 'jobs', '--store', 'FOLDER'], 1],
    [['doctor', '--store', 'FOLDER', '--calls', '1'], 0],
  ] as const

  test.for(commands)('the command %j ends as usual when the reader of its output is gone', async ([args, code]) => {
    const folder = pathToFileURL(temporaryFolder()).href
    const { child, ended, output } = tenure(args.map((arg) => arg.replace('FOLDER', folder)))
    child.stdout?.destroy()
    expect({ code: await ended, error: output.error }).toEqual({ code, error: '' })
  })

  test.runIf(process.platform === 'linux').for(commands)('the command %j reports a full disk', async ([args]) => {
    const folder = pathToFileURL(temporaryFolder()).href
    const words = [program, ...args.map((arg) => arg.replace('FOLDER', folder))]
    const child = spawn(process.execPath, words, { stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'] })
    let error = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (error += text))
    const [code] = (await once(child, 'close')) as [number]
    expect(code).toBe(1)
    expect(error).toMatch(/^tenure: Cannot write to standard output: .*ENOSPC.*\n$/)
  })
})
