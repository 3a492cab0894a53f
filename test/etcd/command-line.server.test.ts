import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import type { ReadableStream as WebStream } from 'node:stream/web'
import { setTimeout as pause } from 'node:timers/promises'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ask, linesOf, run, tenure } from '../../packages/cli/test/tenure.ts'
import { createUsers } from '../servers/etcd-users.ts'
import { askEtcd, base64, etcd, etcd36, putKey, withSettings } from '../servers/etcd.ts'
import { describeWith } from '../servers/suite.ts'

const patience = { timeout: 30_000, interval: 20 }
const password = 'hunter2'

interface Transaction {
  readonly compare?: readonly object[]
  readonly success?: readonly object[]
  readonly failure?: readonly object[]
}

/** A gateway in front of etcd that compares first and writes a moment later, so that it is not atomic. */
async function gatewayWithGap(etcdUrl: string): Promise<string> {
  const forward = (path: string, body: string) => fetch(`${etcdUrl}${path}`, { method: 'POST', body })
  const answerTo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? ''
    const body = await text(request)
    const isTransaction = path === '/v3/kv/txn'
    const { compare, success, failure } = (isTransaction ? JSON.parse(body) : {}) as Transaction
    const isWrite = JSON.stringify(success ?? []).includes('request_put')
    let answer = await forward(path, isWrite ? JSON.stringify({ compare, failure }) : body)
    if (isWrite && (await answer.clone().text()).includes('"succeeded":true')) {
      await pause(20)
      answer = await forward(path, JSON.stringify({ success }))
    }
    response.writeHead(answer.status, { 'content-type': 'application/json' })
    // The other end closes a watch whenever it likes.
    pipeline(Readable.fromWeb(answer.body as WebStream), response, () => {})
  }
  const gateway = createServer((request, response) => void answerTo(request, response))
  gateway.listen(0, '127.0.0.1')
  onTestFinished(() => {
    gateway.close()
    gateway.closeAllConnections()
  })
  await once(gateway, 'listening')
  return `etcd://127.0.0.1:${(gateway.address() as AddressInfo).port}`
}

describeWith(withSettings(etcd36, { 'bcrypt-cost': '4' }), 'the command line on etcd', (server) => {
  const store = () => server().url.replace('http:', 'etcd:')

  test('the command line runs a program on etcd while it leads, shows the leader and each change, and lists the elections', async () => {
    const flags = ['--store', store()]
    const watching = tenure(['watch', 'jobs', ...flags, '--json'])
    const types = () => linesOf(watching.output.out).map(({ type }) => type)
    await vi.waitUntil(() => types().length === 1, patience)
    const command = [process.execPath, '-e', 'console.log(process.env.TENURE_TERM); setInterval(() => {}, 1e3)']
    const running = tenure(['run', 'jobs', ...flags, '--identity', 'node-a', '--ttl', '30s', '--', ...command])
    await vi.waitUntil(() => running.output.out === '1\n', patience)
    const leader = await run(['leader', 'jobs', ...flags, '--json'])
    expect({ code: leader.code, lines: linesOf(leader.out) }).toMatchObject({
      code: 0,
      lines: [{ election: 'jobs', leader: { holder: 'node-a', term: 1 } }],
    })
    const groups = await run(['groups', ...flags, '--json'])
    expect(groups.code, groups.error).toBe(0)
    expect(linesOf(groups.out)).toEqual([expect.objectContaining({ election: 'jobs' })])
    running.child.kill('SIGTERM')
    await running.ended
    await vi.waitUntil(() => types().at(-1) === 'released', patience)
    expect(types().filter((type) => type !== 'renewed')).toEqual(['state', 'elected', 'released'])
  })

  test('tenure sidecar reports who leads on etcd', async () => {
    const listen = ['--listen', '127.0.0.1:0', '--json', '--identity', 'pod-a']
    const sidecar = tenure(['sidecar', 'beside', '--store', store(), ...listen])
    const url = await vi.waitUntil(() => linesOf(sidecar.output.error).find((line) => line['url'])?.['url'], patience)
    await expect.poll(async () => (await ask(`${String(url)}/is-leader`)).status, patience).toBe(200)
  })

  test('tenure doctor reports etcd as safe and warns about a single member', async () => {
    const { code, out, error } = await run(['doctor', '--store', store(), '--ttl', '10m', '--calls', '5'])
    expect({ code, error }, out).toEqual({ code: 0, error: '' })
    expect(out).toMatch(/^watch +shows a change after /m)
    expect(out).toContain('It has one member: while that is down, nobody leads.')
    expect(out).toMatch(
      /^race +16 concurrent creates: one winner in \d rounds?; 16 concurrent swaps: one winner in \d /m,
    )
    const key = base64('tenure/tenure-doctor/')
    const kept = await askEtcd(server(), 'kv/range', { key, range_end: base64('tenure/tenure-doctor0') })
    expect(kept['kvs']).toBeUndefined()
  })

  test('tenure doctor refuses a gateway to etcd that compares and swaps in two steps', async () => {
    const args = ['doctor', '--store', await gatewayWithGap(server().url), '--ttl', '10m', '--calls', '1']
    const { code, out } = await run(args)
    expect(code, out).toBe(1)
    const refusal = (kind: string) =>
      new RegExp(`^16 concurrent ${kind} had \\d+ winners: this server does not compare and swap atomically`, 'm')
    expect(out).toMatch(refusal('creates'))
    expect(out).toMatch(refusal('swaps'))
  })

  test('the command line reports a value that another program wrote, and an unreachable etcd', async () => {
    await putKey(server(), 'tenure/taken/record', 'a value of another program')
    const taken = await run(['leader', 'taken', '--store', store()])
    expect(taken.code).toBe(69)
    expect(taken.error).toContain('Location: the etcd key "tenure/taken/record"')
    const nowhere = await run(['leader', 'jobs', '--store', 'etcd://127.0.0.1:9'])
    expect(nowhere.error).toContain('Nothing is listening there')
    const wrong = await run(['leader', 'jobs', '--store', `etcd://me:${password}@host:2379/a?b`])
    expect(wrong.code).toBe(2)
    expect(wrong.error).not.toContain(password)
  })
})

describeWith(withSettings(etcd, { 'bcrypt-cost': '4' }), 'the command line on etcd with users', (server) => {
  test('the command line reads the password from the environment, hides it from the program, and reports a wrong one', async () => {
    await createUsers(server(), password)
    const flags = ['--store', server().url.replace('http:', 'etcd:')]
    const env = { TENURE_STORE_USER: 'tenure', TENURE_STORE_PASSWORD: password }
    const print = [process.execPath, '-e', 'console.log(process.env.TENURE_STORE_PASSWORD)']
    const once = await run(['run', 'jobs', ...flags, '--once', '--', ...print], { env })
    expect({ code: once.code, out: once.out }).toEqual({ code: 0, out: 'undefined\n' })
    const doctor = await run(['doctor', ...flags, '--ttl', '10m', '--calls', '5'], { env })
    expect(doctor.code, doctor.error).toBe(0)
    const wrong = await run(['leader', 'jobs', ...flags], { env: { ...env, TENURE_STORE_PASSWORD: 'wrong' } })
    expect(wrong).toMatchObject({ code: 69, error: expect.stringContaining('The user name or the password is wrong') })
  })
})
