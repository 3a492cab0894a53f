import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { campaign, expectRefused, json, request, send } from '../attacks.ts'
import { serve } from '../service-under-test.ts'

let service: Awaited<ReturnType<typeof serve>>
let url: string
beforeAll(async () => {
  service = await serve()
  url = service.url
})
afterAll(() => service.close())

const inherited = ['constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', 'then', 'length', 'null']

describe('group ids', () => {
  const badPaths = [
    ['..', '..'],
    ['a parent path', '../x'],
    ['an encoded parent path', '%2e%2e%2f'],
    ['a parent path that was encoded twice', '%252e%252e%252f'],
    ['an encoded slash', 'a%2fb'],
    ['an encoded backslash', 'a%5cb'],
    ['a NUL', '%00'],
    ['a name before a NUL', 'a%00b'],
    ['a line break', 'a%0d%0aSet-Cookie:%20x=1'],
    ['a space', '%20'],
    ['a leading space', '%20a'],
    ['a letter of another alphabet', '%D0%B0dmin'],
    ['a composed letter', '%C3%A9'],
    ['a decomposed letter', 'e%CC%81'],
    ['overlong UTF-8', '%c0%ae'],
    ['an incomplete escape', 'a%2'],
    ['an invalid escape', '%zz'],
    ['a right-to-left override', '%E2%80%AE'],
    ['__proto__', '__proto__'],
    ['a semicolon', 'a;b'],
    ['an asterisk', '*'],
    ['129 letters', 'x'.repeat(129)],
    ['300 letters', 'x'.repeat(300)],
    ['10,000 letters', 'x'.repeat(10_000)],
    ['markup', '%3Cscript%3E'],
  ]

  test.each(badPaths)('a request is refused when the group id is %s', async (_what, id) => {
    expectRefused(await send(url, request(url, `POST /v1/groups/${id}/campaign`, [json], campaign)), 400, 404)
    expectRefused(await send(url, request(url, `GET /v1/groups/${id}/leader`)), 400, 404)
    expectRefused(await send(url, request(url, `DELETE /v1/groups/${id}`)), 400, 404)
    let group_id = id
    try {
      group_id = decodeURIComponent(id)
    } catch {}
    for (const body of [{ group_id }, { group_id: `a\n${group_id}` }]) {
      expectRefused(await send(url, request(url, 'POST /v1/groups', [json], JSON.stringify(body))), 400)
    }
    const renewals = [{ group_id, term: 1, extend_by_ms: 1_000 }]
    const renew = JSON.stringify({ node_id: 'a', renewals })
    expectRefused(await send(url, request(url, 'POST /v1/renew', [json], renew)), 400)
  })

  test('a request is refused when the group id is empty', async () => {
    expectRefused(await send(url, request(url, 'GET /v1/groups//leader')), 400, 404)
    expectRefused(await send(url, request(url, 'POST /v1/groups', [json], '{"group_id":""}')), 400)
  })

  test.each(['a', 'A.b_c:d@e-1', 'x'.repeat(128), ...inherited])(
    'a group named %s works like any other group',
    async (id) => {
      const before = await send(url, request(url, `GET /v1/groups/${id}/leader`))
      expect(before).toMatchObject({ status: 200, body: { leader: null, highest_term: 0 } })
      expectRefused(await send(url, request(url, `GET /v1/groups/${id}/members`)), 404)
      const won = await send(url, request(url, `POST /v1/groups/${id}/campaign`, [json], campaign))
      expect(won).toMatchObject({ status: 200, body: { is_leader: true, leader: { node_id: 'a', term: 1 } } })
      const shown = await send(url, request(url, `GET /v1/groups/${id}`))
      expect(shown).toMatchObject({ status: 200, body: { group: { group_id: id, highest_term: 1 } } })
    },
  )

  test('group ids are case-sensitive', async () => {
    const ask = (id: string) => send(url, request(url, `POST /v1/groups/${id}/campaign`, [json], campaign))
    expect(await ask('case')).toMatchObject({ body: { is_leader: true } })
    expect(await ask('CASE')).toMatchObject({ body: { is_leader: true } })
    expect(await ask('%63ase')).toMatchObject({ body: { is_leader: false } })
  })
})

describe('node ids', () => {
  let groups = 0
  const as = (node_id: unknown, group = `node-${++groups}`) => {
    const body = JSON.stringify({ node_id, lease_ttl_ms: 5_000 })
    return send(url, request(url, `POST /v1/groups/${group}/campaign`, [json], body))
  }

  test.each([
    ['nothing', ''],
    ['a space', ' '],
    ['spaces of other widths', '\u2003\u00a0'],
    ['a leading space', ' a'],
    ['a trailing space', 'a '],
    ['a NUL', 'a\0'],
    ['a line break', 'a\r\nLEADER b'],
    ['a line separator', 'a\u2028b'],
    ['a terminal escape sequence', '\u001b[2J'],
    ['a C1 control', 'a\u009b2J'],
    ['a right-to-left override', 'a\u202eb'],
    ['a zero-width space', 'a\u200bb'],
    ['a soft hyphen', 'a\u00adb'],
    ['a byte order mark', '\ufeffa'],
    ['a decomposed letter', 'e\u0301'],
    ['an Ångström sign', '\u212b'],
    ['half of a surrogate pair', '\ud800'],
    ['257 bytes', 'x'.repeat(257)],
    ['258 bytes of 129 letters', 'ü'.repeat(129)],
    ['10,000 letters', 'x'.repeat(10_000)],
    ['a number', 0],
    ['null', null],
    ['a list', ['a']],
    ['an object', { toString: 'a' }],
  ])('a campaign is refused when the node id is %s', async (_what, id) => {
    expectRefused(await as(id), 400)
  })

  test.each([
    ...inherited,
    '__proto__',
    '../../etc/passwd',
    'node 17',
    'é',
    'а',
    'x'.repeat(256),
    '{{7*7}}',
    "a' OR 1",
  ])('a node named %s works like any other node and is shown unchanged', async (id) => {
    const group = `named-${++groups}`
    expect(await as(id, group)).toMatchObject({ status: 200, body: { is_leader: true, leader: { node_id: id } } })
    expect(await as('a', group)).toMatchObject({ status: 200, body: { is_leader: false } })
    const shown = await send(url, request(url, `GET /v1/groups/${group}/members`))
    const names = ((shown?.body['members'] ?? []) as { node_id: string }[]).map(({ node_id }) => node_id)
    expect(names.sort()).toEqual(['a', id].sort())
  })
})
