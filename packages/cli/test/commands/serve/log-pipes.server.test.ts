/** A log into a pipe that nobody reads stops neither elections nor the shutdown of the service. */
import { execFileSync } from 'node:child_process'
import { constants, readSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { closeOnce, lostLines, makeLines, openFor, serveInto } from '../../log-scene.ts'
import { temporaryFolder } from '../../tenure.ts'

/** Creates a named pipe, so that the test can hold both ends. */
function newPipe(): string {
  const path = join(temporaryFolder(), 'pipe')
  execFileSync('mkfifo', [path])
  return path
}

/** Reads what is available now. */
function readAll(descriptor: number): string {
  const buffer = Buffer.alloc(2 ** 20)
  let text = ''
  try {
    for (;;) {
      const length = readSync(descriptor, buffer)
      if (length === 0) return text
      text += buffer.toString('utf8', 0, length)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    return text
  }
}

/** Reads a pipe in the background until `isEnough`. */
function reading(descriptor: number, isEnough: (text: string) => boolean): Promise<string> {
  let text = ''
  return vi.waitUntil(() => (isEnough((text += readAll(descriptor))) ? text : undefined), { timeout: 20_000 })
}

test('the service ignores a log reader that is gone, and a reader that returns learns how many lines it missed', async () => {
  const path = newPipe()
  const reader = openFor(path, constants.O_RDONLY)
  const { url, child, ended } = await serveInto(openFor(path, constants.O_WRONLY))
  await reading(reader, (text) => text.includes('the service is listening'))
  closeOnce(reader)
  await makeLines(url, 20)
  await expect.poll(() => lostLines(url), { timeout: 20_000 }).toBeGreaterThanOrEqual(40)
  const report = /^\{"level":"warn",.*"lost":(\d+),"msg":"the log could not be written.*\}$/m
  const said = await reading(openFor(path, constants.O_RDONLY), (text) => report.test(text))
  expect(Number(report.exec(said)?.[1])).toBe(await lostLines(url))
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
})

test('a log reader that never reads gets what fits into the pipe, and does not block the service', async () => {
  const path = newPipe()
  const both = openFor(path, constants.O_RDWR)
  const { url, child, ended } = await serveInto(openFor(path, constants.O_WRONLY))
  // Each line is a few hundred bytes long, and a pipe holds 64 KB.
  await makeLines(url, 150)
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
  expect(readAll(both)).toMatch(/^\{.*the service is listening.*\}\n/)
})
