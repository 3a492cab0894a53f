/** A log that cannot be written stops neither elections nor the shutdown of the service. */
import { constants } from 'node:fs'
import { expect, test } from 'vitest'
import { lostLines, makeLines, openFor, serveInto } from '../../log-scene.ts'

test('on a full device the service elects, counts the lost log lines, and stops on request', async () => {
  const { url, child, ended } = await serveInto(openFor('/dev/full', constants.O_WRONLY))
  await makeLines(url, 20)
  // Two lines at the start, and two for each term.
  await expect.poll(() => lostLines(url), { timeout: 20_000 }).toBeGreaterThanOrEqual(42)
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
})

test('a log socket that nobody reads does not block the service', async () => {
  // Node gives a child a socket when asked for a pipe, and reads it only once somebody listens.
  const { url, child, ended } = await serveInto('pipe')
  await makeLines(url, 400)
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
})
