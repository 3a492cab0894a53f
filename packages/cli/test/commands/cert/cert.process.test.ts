import { createPrivateKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, get } from 'node:https'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, temporaryFolder } from '../../tenure.ts'

async function makeIn(folder: string, hosts: string, ...args: string[]) {
  const made = await run(['cert', '--host', hosts, '--out', folder, ...args])
  expect(made).toMatchObject({ code: 0, error: '' })
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  return { cert: read('service.pem'), key: read('service.key') }
}

test('a certificate is valid for the given names and addresses, is for servers only, and cannot sign others', async () => {
  const folder = temporaryFolder()
  const { cert, key } = await makeIn(folder, 'one.example,10.0.0.7,[2001:db8::17]', '--lifetime', '90d')
  const found = new X509Certificate(cert)
  expect(found.checkHost('one.example')).toBe('one.example')
  expect(found.checkHost('two.example')).toBeUndefined()
  expect([found.checkIP('10.0.0.7'), found.checkIP('10.0.0.8')]).toEqual(['10.0.0.7', undefined])
  expect([found.checkIP('2001:db8::17'), found.checkIP('2001:db8::18')]).toEqual(['2001:db8::17', undefined])
  expect({ ca: found.ca, usage: found.keyUsage }).toEqual({ ca: false, usage: ['1.3.6.1.5.5.7.3.1'] })
  expect(found.verify(found.publicKey)).toBe(true)
  expect(found.checkPrivateKey(createPrivateKey(key))).toBe(true)
  const days = (Date.parse(found.validTo) - Date.now()) / 86_400_000
  expect(days).toBeGreaterThan(89.9)
  expect(days).toBeLessThanOrEqual(90)
  expect(Date.parse(found.validFrom)).toBeLessThan(Date.now() - 3_000_000)
  const modes = ['service.key', 'service.pem'].map((name) => (statSync(join(folder, name)).mode & 0o777).toString(8))
  expect(modes).toEqual(['600', '644'])
})

test('tenure cert overwrites no file, so that a service keeps its key', async () => {
  const folder = temporaryFolder()
  const { key } = await makeIn(folder, 'localhost')
  const again = await run(['cert', '--host', 'localhost', '--out', folder])
  expect(again).toMatchObject({ code: 1, error: expect.stringContaining('is never overwritten') })
  expect(readFileSync(join(folder, 'service.key'), 'utf8')).toBe(key)
})

test.each([
  [[], ['--host is missing', '--out is missing']],
  [['--host', 'a b', '--out', '.'], ['--host must be a host name or an IP address']],
  [['--host', 'https://one.example', '--out', '.'], ['--host must be a host name or an IP address']],
  [['--host', 'one.example,', '--out', '.'], ['--host must be a host name or an IP address']],
  [['--host', 'one.example', '--out', '.', '--lifetime', '4000d'], ['--lifetime must be from 1m to 3650d']],
])('tenure cert rejects %j', async (args, messages) => {
  const { code, error } = await run(['cert', ...args], { cwd: temporaryFolder() })
  expect(code).toBe(2)
  for (const message of messages) expect(error).toContain(message)
})

test('clients that trust both the old and the new certificate reach a service with either', async () => {
  const folder = temporaryFolder()
  const old = await makeIn(join(folder, 'old'), '127.0.0.1')
  const next = await makeIn(join(folder, 'new'), '127.0.0.1')
  writeFileSync(join(folder, 'both.pem'), old.cert + next.cert)
  const ca = readFileSync(join(folder, 'both.pem'))
  for (const { cert, key } of [old, next]) {
    const server = createServer({ cert, key }, (_, response) => void response.end())
    onTestFinished(() => void server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const [response] = (await once(get({ host: '127.0.0.1', port, ca, agent: false }), 'response')) as [IncomingMessage]
    expect(response.statusCode).toBe(200)
    response.resume()
  }
})
