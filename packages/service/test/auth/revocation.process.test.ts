import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startService } from '../../src/index.ts'
import {
  backupData,
  createTokenKey,
  restoreData,
  signToken,
  type TokenKey,
  type TokenOptions,
} from '../../src/internal.ts'
import { answers, json, open, request as message } from '../attacks.ts'
import { ask, startTestService, type TestService } from './service.ts'
import { jwkOf, nowSeconds, signed } from './tokens.ts'
import { createPrivateKey, createPublicKey } from 'node:crypto'

let key: TokenKey
let service: TestService
let admin: string
beforeAll(async () => {
  key = await createTokenKey()
  service = await startTestService((write) => ({
    authentication: { tokenKeyFile: write('tenure.key.pub', key.publicKey) },
  }))
  admin = (await signToken(key.privateKey, { node: 'admin', admin: true })).token
})
afterAll(() => service.close())

const group = '/v1/groups/payments'
const sign = (options: Partial<TokenOptions> = {}) =>
  signToken(key.privateKey, { node: 'node-1', groups: ['*'], ...options })
const revoke = (token_id: string, { url = service.url, by = admin } = {}) =>
  ask(url, by, 'POST', '/v1/tokens/revoke', { token_id })
const look = (token: string, url = service.url) => ask(url, token, 'GET', `${group}/leader`)
const refused = {
  status: 401,
  body: { ok: false, error: 'UNAUTHORIZED', message: 'The credential has been revoked.' },
}

/** Reads until the stream ends. */
async function readAll(response: Response): Promise<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) text += decoder.decode(chunk as Uint8Array, { stream: true })
  return text
}

const openStream = (token: string, url: string) =>
  fetch(`${url}${group}/watch`, { headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream' } })

/** The tokens that the first case revoked. */
const earlier: string[] = []

describe('revoked tokens', () => {
  test('a revoked token is refused by every process once the revocation is answered, and other tokens are not', async () => {
    const other = await sign()
    for (let round = 0; round < 6; round++) {
      const { entries } = service.running
      const { token, id } = await sign()
      for (const url of entries) expect((await look(token, url)).status).toBe(200)
      const at = entries[round % entries.length]
      expect(await revoke(id, { url: at ?? '' })).toMatchObject({ status: 200, body: { ok: true } })
      const all = await Promise.all(entries.map((url) => look(token, url)))
      for (const answer of all) expect(answer).toMatchObject(refused)
      earlier.push(token)
      for (const url of entries) expect((await look(other.token, url)).status).toBe(200)
    }
    expect(service.log.join('\n')).toContain('the token is revoked')
  })

  test("a revocation ends the token's streams, polls, and waiting campaigns with the reason, and no others", async () => {
    const [bad, good] = [await sign(), await sign({ node: 'node-2' })]
    const campaign = (token: string, node_id: string, url: string, more: object) =>
      ask(url, token, 'POST', `${group}/campaign`, { node_id, lease_ttl_ms: 60_000, ...more })
    const { entries } = service.running
    expect((await campaign(good.token, 'node-2', service.url, {})).body['is_leader']).toBe(true)
    const { body } = await ask(service.url, good.token, 'GET', `${group}/watch`)
    const pollPath = `${group}/watch?wait_ms=60000&cursor=${String(body['cursor'])}`
    const open = await Promise.all(
      entries.map(async (url) => ({
        stream: await openStream(bad.token, url),
        kept: await openStream(good.token, url),
        poll: ask(url, bad.token, 'GET', pollPath),
        keptPoll: ask(url, good.token, 'GET', pollPath),
        inLine: campaign(bad.token, 'node-1', url, { wait_ms: 60_000 }),
      })),
    )
    const streams = open.map(({ stream }) => readAll(stream))
    const reader = await sign({ node: 'eye', reader: true })
    const figures = async (name: string) => {
      const texts = entries.map(async (url) => (await ask(url, reader.token, 'GET', '/metrics')).body['text'])
      const found = (await Promise.all(texts)).map(
        (text) => new RegExp(`^${name} (\\d+)$`, 'm').exec(String(text))?.[1],
      )
      return found.reduce((sum, figure) => sum + Number(figure), 0)
    }
    await expect.poll(() => figures('tenure_watchers')).toBe(entries.length * 4)
    await expect.poll(() => figures('tenure_waiting_campaigns')).toBe(entries.length)
    expect((await revoke(bad.id)).status).toBe(200)
    for (const text of await Promise.all(streams)) expect(text).toMatch(/: your token has been revoked\n\n$/)
    for (const { poll, inLine } of open) {
      expect(await poll).toMatchObject(refused)
      expect(await inLine).toMatchObject(refused)
    }
    await expect.poll(() => figures('tenure_watchers')).toBe(entries.length * 2)
    // The streams of the other token still receive the next change.
    const { term } = (await look(good.token)).body['leader'] as { term: number }
    await ask(service.url, good.token, 'POST', `${group}/resign`, { node_id: 'node-2', term })
    for (const { kept, keptPoll } of open) {
      expect(await keptPoll).toMatchObject({ status: 200, body: { events: [{ type: 'LEADER_LOST' }] } })
      await kept.body?.cancel()
    }
  })

  test('a leader with a revoked token cannot renew, so its lease expires and another node leads', async () => {
    const [bad, good] = [await sign(), await sign({ node: 'node-2' })]
    const call = (token: string, verb: string, body: object) =>
      ask(service.url, token, 'POST', `/v1/groups/left/${verb}`, body)
    const { body } = await call(bad.token, 'campaign', { node_id: 'node-1', lease_ttl_ms: 1_500 })
    const { term } = body['leader'] as { term: number }
    const waiting = call(good.token, 'campaign', { node_id: 'node-2', lease_ttl_ms: 1_500, wait_ms: 30_000 })
    await revoke(bad.id)
    const renewal = { node_id: 'node-1', term, extend_by_ms: 1_500 }
    expect(await call(bad.token, 'renew', renewal)).toMatchObject(refused)
    const renewals = [{ group_id: 'left', term, extend_by_ms: 1_500 }]
    const batch = await ask(service.url, bad.token, 'POST', '/v1/renew', { node_id: 'node-1', renewals })
    expect(batch).toMatchObject(refused)
    expect((await waiting).body).toMatchObject({ is_leader: true, leader: { node_id: 'node-2', term: term + 1 } })
  })

  test('a revoked token is refused when the body of its request arrives after the revocation', async () => {
    const bad = await sign()
    const text = JSON.stringify({ node_id: 'node-1', lease_ttl_ms: 60_000 })
    const socket = open(service.url)
    const headers = [json, `Authorization: Bearer ${bad.token}`, `Content-Length: ${text.length}`]
    socket.write(message(service.url, `POST /v1/groups/late/campaign`, headers))
    const answer = answers(socket, 1)
    // By the time this request is answered, the service has read the head that was sent earlier.
    await look(bad.token)
    await revoke(bad.id)
    socket.write(text)
    expect((await answer)[0]).toMatchObject({ status: 401 })
  })

  test('only an administrator can revoke a token, and it can do so repeatedly and for its own token', async () => {
    const [bad, node, chief] = [await sign(), await sign(), await sign({ node: 'chief', admin: true, groups: [] })]
    const reader = await sign({ node: 'eye', reader: true, groups: [] })
    for (const { token } of [node, reader]) expect((await revoke(bad.id, { by: token })).status).toBe(403)
    expect((await look(bad.token)).status).toBe(200)
    const twice = await Promise.all([revoke(bad.id), revoke(bad.id), revoke(bad.id)])
    expect(twice.map(({ status }) => status)).toEqual([200, 200, 200])
    expect((await revoke(bad.id)).status).toBe(200)
    expect((await revoke(chief.id, { by: chief.token })).status).toBe(200)
    expect(await revoke(bad.id, { by: chief.token })).toMatchObject(refused)
  })

  test.each([{}, { token_id: '' }, { token_id: 7 }, { token_id: 'x'.repeat(257) }, { token_id: 'a\nb' }])(
    'a revocation with the body %j is refused',
    async (body) => {
      const answer = await ask(service.url, admin, 'POST', '/v1/tokens/revoke', body)
      expect(answer).toMatchObject({ status: 400, body: { error: 'INVALID_REQUEST' } })
    },
  )

  test('a revoked token stays refused after the active replica has changed', async () => {
    expect(earlier).toHaveLength(6)
    const all = earlier.flatMap((token) => service.running.entries.map((url) => look(token, url)))
    for (const answer of await Promise.all(all)) expect(answer).toMatchObject(refused)
  })

  test('a revoked token is neither listed nor counted as a group', async () => {
    const { id } = await sign()
    const countOf = async () => {
      const counts = service.running.entries.map(async (url) => {
        const text = String((await ask(url, admin, 'GET', '/metrics')).body['text'])
        return [/^tenure_groups (\d+)$/m, /^tenure_grants_total (\d+)$/m].map((each) => Number(each.exec(text)?.[1]))
      })
      return (await Promise.all(counts)).reduce(([a = 0, b = 0], [c = 0, d = 0]) => [a + c, b + d])
    }
    const before = await countOf()
    await revoke(id)
    expect(await countOf()).toEqual(before)
    const { body } = await ask(service.url, admin, 'GET', '/v1/groups?limit=500')
    expect(body['next']).toBeNull()
    const names = (body['groups'] as { group_id: string }[]).map(({ group_id }) => group_id)
    expect(names.filter((name) => !/^[a-z]/.test(name))).toEqual([])
    const hidden = await ask(service.url, admin, 'GET', '/v1/groups?after=~revoked:')
    expect(hidden.status).toBe(400)
  })
})

test('a revocation survives a restart and is part of a backup', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-revoked-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const tokenKeyFile = join(folder, 'tenure.key.pub')
  writeFileSync(tokenKeyFile, key.publicKey)
  const begin = (name = 'data') =>
    startService({ data: join(folder, name), port: 0, authentication: { tokenKeyFile }, implicitGroups: false })
  const [bad, good, later] = [await sign(), await sign(), await sign()]
  const first = await begin()
  expect((await revoke(bad.id, { url: first.url })).status).toBe(200)
  await first.close()
  const second = await begin()
  onTestFinished(() => second.close())
  expect(await look(bad.token, second.url)).toMatchObject(refused)
  expect((await look(good.token, second.url)).status).toBe(200)
  await backupData({ data: join(folder, 'data'), to: join(folder, 'backup') })
  await restoreData({ data: join(folder, 'backup') })
  const third = await begin('backup')
  onTestFinished(() => third.close())
  expect(await look(bad.token, third.url)).toMatchObject(refused)
  expect((await revoke(later.id, { url: third.url })).status).toBe(200)
  expect(await look(later.token, third.url)).toMatchObject(refused)
})

test('a token from an issuer is revoked by its id, and a token without an id is valid until it expires', async () => {
  const own = createPrivateKey(key.privateKey)
  const issued = await startTestService((write) => ({
    authentication: {
      jwt: { keysFile: write('keys.json', jwkOf(createPublicKey(key.publicKey))), issuer: 'i', audience: 'a' },
    },
  }))
  onTestFinished(() => issued.close())
  const { url } = issued
  const tokenOf = (more: object) => {
    const iat = nowSeconds()
    const claims = { iss: 'i', aud: 'a', sub: 'n', iat, exp: iat + 600, tenure: { groups: ['*'], admin: true } }
    return signed({ alg: 'ES256' }, { ...claims, ...more }, own)
  }
  const by = tokenOf({})
  for (const jti of ['7', 'a/b+c==', '%2e%2e', 'ünïcode 🔑', 'x'.repeat(256)]) {
    const token = tokenOf({ jti })
    expect((await look(token, url)).status).toBe(200)
    expect((await revoke(jti, { url, by })).status).toBe(200)
    expect(await look(token, url)).toMatchObject(refused)
  }
  for (const jti of [7, null, ['7'], '']) expect((await look(tokenOf({ jti }), url)).status).toBe(200)
})
