import { expect, test } from 'vitest'
import { nodeOfToken } from '../../src/shared/token-claims.ts'

const tokenOf = (claims: unknown) => `head.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.signature`

test.each([
  ['the subject of a token without a node', { sub: 'm-1', tenure: { groups: ['a'] } }, 'm-1'],
  ['the node that the rights name', { sub: 'issuer|17', tenure: { node: 'm-1', groups: ['a'] } }, 'm-1'],
  ['nothing for a token that speaks for several nodes', { sub: 'east', tenure: { nodePrefix: 'east/' } }, undefined],
  ['nothing for a token without a subject', { tenure: {} }, undefined],
  ['nothing for claims that are not an object', [1], undefined],
])('nodeOfToken returns %s', (_, claims, node) => {
  expect(nodeOfToken({ TENURE_TOKEN: tokenOf(claims) })).toBe(node)
})

test('nodeOfToken returns nothing when there is no token, no JWT, or no such file', () => {
  expect(nodeOfToken({})).toBeUndefined()
  expect(nodeOfToken({ TENURE_TOKEN: 'opaque' })).toBeUndefined()
  expect(nodeOfToken({ TENURE_TOKEN_FILE: '/nonexistent/token' })).toBeUndefined()
})
