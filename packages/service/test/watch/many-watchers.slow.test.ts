import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { figure, newDirectory, post, serveProcess } from '../service-process.ts'

interface Limits {
  readonly userLimits: { readonly open_files: { readonly soft: number | 'unlimited' } }
}
const { soft } = (process.report.getReport() as unknown as Limits).userLimits.open_files
/** Each watcher has a socket in this process and one in the process of the service. */
const crowd = Math.min(10_000, soft === 'unlimited' ? Infinity : soft - 500)

test(`${crowd} idle watchers cost little memory, and all receive a change`, { timeout: 120_000 }, async () => {
  if (crowd < 10_000) console.warn(`10,000 watchers need ${10_500} open files; this machine allows ${soft}.`)
  const { url } = await serveProcess(newDirectory())
  const { hostname, port } = new URL(url)
  const head = `GET /v1/groups/g/watch HTTP/1.1\r\nhost: ${hostname}\r\naccept: text/event-stream\r\n\r\n`
  const sockets: Socket[] = []
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()))
  const before = await figure(url, 'process_resident_memory_bytes')
  let told: number[] = []
  let broken = 0
  // Connect a few at a time, because the queue of connections to be accepted is short.
  while (sockets.length < crowd) {
    const some = Array.from({ length: Math.min(200, crowd - sockets.length) }, () => connect(Number(port), hostname))
    sockets.push(...some)
    await Promise.all(some.map((socket) => once(socket, 'connect')))
    for (const socket of some) {
      socket.on('close', () => (broken += 1))
      socket.on('data', (chunk: Buffer) => {
        if (chunk.includes('LEADER_CHANGED')) told.push(performance.now())
      })
      socket.write(head)
    }
  }
  const watchers = () => figure(url, 'tenure_watchers')
  await vi.waitFor(async () => expect(await watchers()).toBe(crowd), 30_000)
  const bytesEach = ((await figure(url, 'process_resident_memory_bytes')) - before) / crowd
  console.log(`${crowd} watchers: ${Math.round(bytesEach)} bytes each`)
  expect(bytesEach).toBeLessThan(40_000)

  for (let term = 1; term <= 3; term++) {
    told = []
    const claim = { node_id: 'a', lease_ttl_ms: 60_000 }
    await post(`${url}/v1/groups/g/campaign`, claim)
    await vi.waitFor(() => expect(told.length).toBe(crowd), 20_000)
    told.sort((one, other) => one - other)
    console.log(`notified within ${Math.round((told.at(-1) ?? 0) - (told[0] ?? 0))} ms of each other`)
    await post(`${url}/v1/groups/g/resign`, { node_id: 'a', term })
  }
  await delay(0)
  expect(broken).toBe(0)
  // The service still answers others.
  expect(await (await fetch(`${url}/v1/groups/g/leader`)).json()).toMatchObject({ leader: null, highest_term: 3 })
  for (const socket of sockets) socket.destroy()
  await vi.waitFor(async () => expect(await watchers()).toBe(0), 20_000)
})
