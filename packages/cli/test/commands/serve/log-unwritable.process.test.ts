/** A log that cannot be written to stops neither elections nor the shutdown of the service. */
import { constants } from 'node:fs'
import { expect, test } from 'vitest'
import { lostLines, makeLines, openFor, serveInto } from '../../log-scene.ts'

test('a service whose log is on a full device still elects, counts the lost lines, and stops on request', async () => {
  const { url, child, ended } = await serveInto(openFor('/dev/full', constants.O_WRONLY))
  await makeLines(url, 20)
  // The service logs two lines at the start, and two for each term.
  await expect.poll(() => lostLines(url), { timeout: 20_000 }).toBeGreaterThanOrEqual(42)
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
})

test('a log socket that nobody reads does not block the service', async () => {
  // Node creates a socket when asked for a pipe, and reads from it only once there is a listener.
  const { url, child, ended } = await serveInto('pipe')
  await makeLines(url, 400)
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
})
