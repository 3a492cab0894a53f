import { expect, test } from 'vitest'
import { freePort } from './free-port.ts'

test('freePort never returns the same port twice, even if the server starts to listen late', async () => {
  const ports = new Set<number>()
  // With random draws from 22,768 ports, two of this many would collide in all but one in a million runs.
  for (let count = 0; count < 800; count++) ports.add(await freePort())
  expect(ports.size).toBe(800)
})
