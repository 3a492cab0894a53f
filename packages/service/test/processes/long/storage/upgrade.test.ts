/** Tests of an upgrade of the previous format by a service that is killed meanwhile. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openStorage, read } from '../../../storage/data.ts'
import { readFormat1, writeFormat1 } from '../../../storage/format-1.ts'

const groups = Array.from({ length: 20_000 }, (_, index) => ({
  id: `group-${String(index).padStart(5, '0')}`,
  record: { term: index + 1, node: 'a', attempt: 'x', ttl: 60_000, at: 1, carry: 'x'.repeat(100) },
}))

/** Starts a service. It prints when it begins and when it is ready. */
function start(data: string) {
  const code = `const { startService } = await import('@tenure/service')
    console.log('begins')
    await startService({ data: ${JSON.stringify(data)}, port: 0 })
    console.log('serves')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    cwd: import.meta.dirname,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

test('an upgrade that is killed at any moment is done or not done, never half', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-upgrade-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const original = join(folder, 'original')
  await writeFormat1(original, groups)
  const outcomes = new Set<string>()
  for (let index = 0; index < 8; index++) {
    const data = join(folder, `data-${index}`)
    cpSync(original, data, { recursive: true })
    const child = start(data)
    await once(child.stdout, 'data')
    // The last one is killed once it serves. It has been upgraded by then.
    if (index === 7) await once(child.stdout, 'data')
    else await delay(index * 25)
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
    const outcome = await readFormat1(data).then(
      () => 'not done',
      (error: Error) => error.message,
    )
    outcomes.add(outcome)
    if (index === 7) expect(outcome).toMatch('it has format 2')
    const storage = await openStorage(data)
    expect((await read(storage)).map(({ id, record }) => ({ id, record }))).toEqual(groups)
    expect(await storage.head()).toMatchObject({ clusterId: 'cluster', seq: 0 })
    await storage.close()
    await expect(readFormat1(data)).rejects.toThrow('it has format 2; this version reads format 1.')
  }
  expect([...outcomes].sort()).toEqual(['it has format 2; this version reads format 1.', 'not done'])
}, 90_000)
