/** A web page whose name resolves to this machine (DNS rebinding) cannot read from a sidecar. */
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { text } from 'node:stream/consumers'
import { expect, test, vi } from 'vitest'
import { linesOf, tenure } from '../../tenure.ts'

/** Starts a sidecar and returns its port once it answers. */
async function sidecar(listen: string, ...more: string[]): Promise<number> {
  const { output } = tenure(['sidecar', 'jobs', '--store', 'memory:', '--listen', listen, '--json', ...more])
  const started = () => linesOf(output.error).find(({ url }) => url !== undefined)
  const line = await vi.waitUntil(started, { timeout: 20_000, interval: 20 })
  return Number(new URL(String(line['url'])).port)
}

async function ask(port: number, host: string, address = '127.0.0.1'): Promise<{ status: number; body: object }> {
  const sent = request({ host: address, port, path: '/leader', headers: { host } }).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: response.statusCode ?? 0, body: JSON.parse(await text(response)) as object }
}

test('a sidecar accepts only localhost, its address and allowed host names, with or without a port', async () => {
  const port = await sidecar('127.0.0.1:0', '--allowed-host', 'leader.internal', '--allowed-host', '[fd00::7]')
  const names = ['localhost', 'LOCALHOST', '127.0.0.1', '[::1]', 'leader.internal', 'Leader.Internal', '[fd00::7]']
  for (const host of names.flatMap((name) => [name, `${name}:${port}`, `${name}:80`])) {
    expect((await ask(port, host)).status, host).toBe(200)
  }
  const others = ['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', 'localhost@evil.example', '[::2]']
  for (const host of [...others, `evil.example:${port}`, 'leader.internal.evil.example', '10.0.0.1']) {
    expect(await ask(port, host), host).toMatchObject({
      status: 403,
      body: { ok: false, error: 'UNAUTHORIZED', message: expect.stringContaining('--allowed-host') as string },
    })
  }
})

test('a sidecar that listens on all addresses accepts each of them as the host, but no other name', async () => {
  const port = await sidecar('0.0.0.0:0')
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  const addresses = all.filter(({ family }) => family === 'IPv4').map(({ address }) => address)
  expect(addresses.length).toBeGreaterThan(0)
  for (const address of addresses) {
    expect((await ask(port, `${address}:${port}`, address)).status, address).toBe(200)
    expect((await ask(port, 'evil.example', address)).status, address).toBe(403)
  }
})

test('a sidecar on loopback is not reachable by a kubelet that calls another address of the pod', async () => {
  const port = await sidecar('127.0.0.1:0')
  expect((await ask(port, 'localhost')).status).toBe(200)
  await expect(ask(port, '127.0.0.2', '127.0.0.2')).rejects.toThrow('ECONNREFUSED')
  const open = await sidecar(':0')
  expect((await ask(open, '127.0.0.2', '127.0.0.2')).status).toBe(200)
})

test('a health check with HTTP/1.0 does not need to send a host', async () => {
  const port = await sidecar('127.0.0.1:0')
  const socket = connect(port, '127.0.0.1')
  socket.write('GET /healthz HTTP/1.0\r\n\r\n')
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /)
})
