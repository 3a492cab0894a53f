import { expect, test } from 'vitest'
import { freePort } from './free-port.ts'

test('no port is given twice, however late the server listens that it is for', async () => {
  const ports = new Set<number>()
  // Of 22,768 ports, drawn at random, two of so many would be the same in all but one of a million runs.
  for (let count = 0; count < 800; count++) ports.add(await freePort())
  expect(ports.size).toBe(800)
})
