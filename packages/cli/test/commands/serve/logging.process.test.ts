import type { KeyObject } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { audience, claimsOf, ecKeys, issuer, signed } from '../../../../service/test/auth/tokens.ts'
import { ask, campaign, serve, temporaryFolder, tenure, type Served } from '../../tenure.ts'

const tokenBy = (key: KeyObject, more: Record<string, unknown> = {}) =>
  signed({ alg: 'ES256' }, claimsOf('a', { tenure: { groups: ['*'] }, ...more }), key)

/** Writes a key to a file, and returns the flags that name it. */
function keysIn(folder: string) {
  const file = join(folder, 'keys.pem')
  const write = (key: KeyObject) => writeFileSync(file, key.export({ type: 'spki', format: 'pem' }))
  const { publicKey, privateKey } = ecKeys()
  write(publicKey)
  return { file, write, privateKey, flags: ['--jwt-keys', file, '--jwt-issuer', issuer, '--jwt-audience', audience] }
}

async function serveWithKeys() {
  const folder = temporaryFolder()
  const keys = keysIn(folder)
  return { ...keys, served: await serve(join(folder, 'data'), keys.flags) }
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const lead = (url: string, token: string, more: object = {}) =>
  ask(`${url}/v1/groups/jobs/campaign`, { node_id: 'a', lease_ttl_ms: 30_000, ...more }, bearer(token))

async function finish({ child, ended, output }: Served): Promise<string> {
  child.kill('SIGTERM')
  await ended
  return output.out + output.error
}

test.each([
  ['JSON', []],
  ['text', ['--no-json']],
])('a log as %s contains no token and no metadata, even at level trace', async (_kind, args) => {
  const folder = temporaryFolder()
  const { flags, privateKey } = keysIn(folder)
  const address = '127.0.0.1:0'
  const data = join(folder, 'data')
  const { output, child, ended } = tenure([
    'serve',
    '--data',
    data,
    '--listen',
    address,
    ...flags,
    '--log-level',
    'trace',
    '--json',
    ...args,
  ])
  const url = await vi.waitUntil(() => /http:\/\/[\d.:]+/.exec(output.error)?.[0], { timeout: 20_000 })
  const good = tokenBy(privateKey)
  const expired = tokenBy(privateKey, { iat: 1_000, exp: 2_000 })
  const forged = tokenBy(ecKeys().privateKey)
  const secret = 'hunter2-do-not-tell'
  const metadata = { password: secret }
  expect(await lead(url, good, { metadata })).toMatchObject({ status: 200, body: { is_leader: true } })
  for (const token of [expired, forged]) expect(await lead(url, token, { metadata })).toMatchObject({ status: 401 })
  const strange = [`${url}/v1/groups/jobs/leader?token=${secret}`, `${url}/nowhere/${secret}`, `${url}/v1/groups/%00`]
  for (const path of strange) await ask(path, undefined, bearer(good))
  await ask(`${url}/v1/groups/jobs/campaign`, { node_id: 'a', lease_ttl_ms: 1, metadata }, bearer(good))
  await ask(`${url}/v1/groups/jobs/leader`, undefined, { authorization: `Basic ${secret}`, 'x-request-id': 'mine' })
  child.kill('SIGTERM')
  await ended
  const said = output.out + output.error
  expect(said).toMatch(/elected/)
  expect(said).toMatch(/the token has expired/)
  for (const token of [good, expired, forged]) for (const part of token.split('.')) expect(said).not.toContain(part)
  expect(said).not.toContain(secret)
})

test('the service logs each start and end of a term, and no renewals', async () => {
  const served = await serve(temporaryFolder(), ['--log-level', 'trace'])
  const { url, lines } = served
  await campaign(url, 'jobs', 'a')
  for (let count = 0; count < 50; count++) {
    await ask(`${url}/v1/groups/jobs/renew`, { node_id: 'a', term: 1, extend_by_ms: 30_000 })
  }
  await ask(`${url}/v1/groups/jobs/resign`, { node_id: 'a', term: 1 })
  await finish(served)
  const events = lines().filter(({ group }) => group !== undefined)
  expect(events).toMatchObject([
    { level: 'info', msg: 'elected', group: 'jobs', node: 'a', term: 1, ttlMs: 30_000 },
    { level: 'info', msg: 'ended', group: 'jobs', node: 'a', term: 1, reason: 'resigned' },
  ])
  expect(lines().length).toBeLessThan(10)
})

test('serve logs a refused request with its request id and rate-limits these log lines', async () => {
  const { served, privateKey } = await serveWithKeys()
  const { url, lines } = served
  const forged = bearer(tokenBy(ecKeys().privateKey))
  const path = `${url}/v1/groups/jobs/leader`
  const named = await ask(path, undefined, { ...forged, 'x-request-id': 'from-my-proxy.1' })
  expect(named.body['request_id']).toBe('from-my-proxy.1')
  for (const harm of ['a'.repeat(65), 'a b', '{"level":"fatal"}', 'é']) {
    const { body } = await ask(path, undefined, { ...forged, 'x-request-id': Buffer.from(harm).toString('latin1') })
    expect(body['request_id']).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/)
  }
  for (let count = 0; count < 100; count++) await ask(path, undefined, forged)
  expect(await ask(path, undefined, bearer(tokenBy(privateKey)))).toMatchObject({ status: 200 })
  await finish(served)
  const refused = lines().filter(({ status }) => status === 401)
  expect(refused[0]).toMatchObject({
    level: 'warn',
    request_id: 'from-my-proxy.1',
    route: '/v1/groups/:group_id/leader',
    from: '127.0.0.1',
    code: 'UNAUTHORIZED',
    reason: "the token's signature is invalid",
  })
  expect(refused.length).toBe(20)
})

test('a log line in text form has a time, a level, a message, and the fields as key=value', async () => {
  const folder = temporaryFolder()
  const { output, child, ended } = tenure(['serve', '--data', folder, '--listen', '127.0.0.1:0'])
  const url = await vi.waitUntil(() => /is listening url=(\S+)/.exec(output.error)?.[1], { timeout: 20_000 })
  await campaign(url, 'jobs', 'a node')
  child.kill('SIGTERM')
  await ended
  expect(output.error).toMatch(/^\d{4}-\d\d-\d\dT\S+Z INFO {2}elected group=jobs node="a node" term=1 ttlMs=30000$/m)
  for (const line of output.error.trim().split('\n')) expect(line).toMatch(/^\S+Z (INFO|WARN) {2}\S/)
})

test('SIGHUP reloads keys, and a file that cannot be read leaves everything unchanged', async () => {
  const { served, privateKey, file, write } = await serveWithKeys()
  const { url, child, lines } = served
  const path = `${url}/v1/groups/jobs/leader`
  const status = async (key: KeyObject) => (await ask(path, undefined, bearer(tokenBy(key)))).status
  const next = ecKeys()
  expect([await status(privateKey), await status(next.privateKey)]).toEqual([200, 401])
  write(next.publicKey)
  child.kill('SIGHUP')
  await vi.waitUntil(() => lines().some(({ msg }) => msg === 'reloaded keys, certificates and rights'))
  expect([await status(privateKey), await status(next.privateKey)]).toEqual([401, 200])
  writeFileSync(file, 'no key')
  child.kill('SIGHUP')
  const told = await vi.waitUntil(() => lines().find(({ level }) => level === 'error'))
  expect(told).toMatchObject({ msg: 'cannot reload keys, certificates and rights; the old ones stay in use' })
  expect(JSON.stringify(told)).toContain('keysFile')
  expect(await status(next.privateKey)).toBe(200)
})
