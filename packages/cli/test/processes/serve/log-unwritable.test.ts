/** A log that can't be written stops neither elections nor the end of the service. */
import { constants } from 'node:fs'
import { expect, test } from 'vitest'
import { lostLines, makeLines, openFor, serveInto } from '../../log-scene.ts'

test('on a full device the service elects, counts the lines that are lost, and ends when asked to', async () => {
  const { url, child, ended } = await serveInto(openFor('/dev/full', constants.O_WRONLY))
  await makeLines(url, 20)
  // Two when it began, and two for each term.
  await expect.poll(() => lostLines(url), { timeout: 20_000 }).toBeGreaterThanOrEqual(42)
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
})

test('a socket that nobody reads stops nothing either', async () => {
  // Node gives a child a socket where it is asked for a pipe, and reads it only once somebody listens.
  const { url, child, ended } = await serveInto('pipe')
  await makeLines(url, 400)
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
})
