import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { scene, type Wrapper } from './scene.ts'

/** Waits for the address of a run's metrics. */
function shownBy({ output }: Wrapper): Promise<string> {
  const found = () => /metrics are at (\S+)/.exec(output.error)?.[1]
  return vi.waitUntil(found, { timeout: 20_000, interval: 20 })
}

const text = async (url: string) => (await fetch(url)).text()
const patience = { timeout: 20_000, interval: 20 }

test('tenure run serves the leader, the term and its calls as metrics, on loopback only', async () => {
  const on = scene()
  const first = on.work(['--ttl', '4s', '--metrics', '0'])
  const url = await shownBy(first)
  expect(new URL(url).hostname).toBe('127.0.0.1')
  await expect.poll(() => text(url), patience).toContain('\nleader_election_master_status{name="jobs"} 1\n')
  const second = on.work(['--ttl', '4s', '--metrics', '127.0.0.1:0'])
  const other = await shownBy(second)
  await expect.poll(() => text(other), patience).toContain('\nleader_election_master_status{name="jobs"} 0\n')
  await expect
    .poll(() => text(url), patience)
    .toContain('tenure_store_call_seconds_count{election="jobs",verb="renew",result="ok"}')
  expect(await text(url)).toMatch(
    /^# HELP tenure_build_info [^\n]+\n# TYPE tenure_build_info gauge\ntenure_build_info\{version="\d+\.\d+\.\d+[^"]*"\} 1\n/,
  )
  expect((await fetch(new URL('/leader', url))).status).toBe(404)
  expect((await fetch(url, { method: 'POST' })).status).toBe(405)
  first.child.kill('SIGTERM')
  await first.ended
  await expect.poll(() => text(other), patience).toContain('\nleader_election_master_status{name="jobs"} 1\n')
  expect(await text(other)).toContain('\ntenure_term{election="jobs"} 2\n')
})

test('scrapers that hang neither end the lease nor delay the exit of tenure run, and other scrapers get answers', async () => {
  const on = scene()
  const one = on.work(['--ttl', '3s', '--metrics', '0'])
  const url = await shownBy(one)
  const port = Number(new URL(url).port)
  const hanging = Array.from({ length: 50 }, (_, index) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    onTestFinished(() => void socket.destroy())
    socket.pause()
    // One third sends nothing, one third sends half of a request, and one third sends a request and never reads the
    // answer.
    if (index % 3 === 1) socket.write('GET /metrics HTTP/1.1\r\nhost: localhost\r\nx: ')
    if (index % 3 === 2) socket.write('GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(500))
    return socket
  })
  await Promise.all(hanging.map((socket) => once(socket, 'connect')))
  const renewals = async () =>
    Number(/_count\{election="jobs",verb="renew",result="ok"\} (\d+)/.exec(await text(url))?.[1] ?? 0)
  await expect.poll(renewals, patience).toBeGreaterThan(3)
  expect(on.lines().filter(({ what }) => what === 'begin')).toHaveLength(1)
  one.child.kill('SIGTERM')
  await one.ended
  const open = hanging.filter((socket) => !socket.closed)
  await Promise.all(open.map((socket) => once(socket.resume(), 'close')))
})

test('a port that is in use is reported before anything runs', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  const { ended, output } = scene().run(['--metrics', String(port), '--once', '--', 'sh', '-c', 'echo ran'])
  expect(await ended).toBe(69)
  expect(output.error).toContain(
    `cannot listen on 127.0.0.1:${port}: another program is listening there. Choose another port with --metrics`,
  )
  expect(output.out).toBe('')
})

test('the command does not inherit TENURE_METRICS, so that it can be tenure again', async () => {
  const { ended, output } = scene().run(['--once', '--', 'sh', '-c', 'echo "[$TENURE_METRICS]"'], {
    env: { TENURE_METRICS: '127.0.0.1:0' },
  })
  expect(await ended).toBe(0)
  expect(output.out).toBe('[]\n')
  expect(output.error).toContain('metrics are at http://127.0.0.1:')
})
