import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { filesPath, pageFile, pageOrText } from '../../src/server/static-page.ts'

const browser = { accept: 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8' }
const page = () => pageOrText('routes', browser)
const names = () =>
  [
    ...page()
      .body.toString()
      .matchAll(/(?:src|href)="([^"]+)"/g),
  ].map(([, path]) => path ?? '')

test('a browser gets the HTML page, and other clients get plain text', () => {
  expect(page()).toMatchObject({ status: 200, headers: { 'content-type': 'text/html; charset=utf-8' } })
  for (const accept of [undefined, '*/*', 'application/json', 'text/plain']) {
    const answer = pageOrText('routes', { accept })
    expect(answer.body.toString()).toBe('routes')
    expect(answer.headers).toMatchObject({ 'content-type': 'text/plain; charset=utf-8', vary: 'accept' })
  }
})

test('URLs in the page are relative, so that it works behind a path prefix, and its files exist', () => {
  expect(names()).toHaveLength(3)
  for (const path of names()) {
    expect(path).toMatch(/^page\/[a-z]+-\w+\.(js|css|svg)$/)
    expect(pageFile(`/${path}`.slice(filesPath.length), {})).toMatchObject({
      status: 200,
      headers: { 'cache-control': 'public, max-age=31536000, immutable', 'x-content-type-options': 'nosniff' },
    })
  }
  expect(pageFile('../package.json', {})).toBeUndefined()
  expect(pageFile('__proto__', {})).toBeUndefined()
})

test('the page has a strict Content-Security-Policy, and contains no inline code and nothing from other hosts', () => {
  const html = page().body.toString()
  expect(html).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:|https?:|\/\//i)
  const { 'content-security-policy': policy, ...headers } = page().headers
  for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"]) {
    expect(policy?.split('; ')).toContain(rule)
  }
  for (const rule of ["frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"]) expect(policy).toContain(rule)
  expect(policy).not.toMatch(/unsafe|\*/)
  expect(headers).toMatchObject({ 'x-frame-options': 'DENY', 'referrer-policy': 'no-referrer' })
  expect(Object.keys(headers)).not.toContain('set-cookie')
})

test('files are compressed for clients that accept gzip, and a client that sends a matching ETag gets 304', () => {
  const name = `/${names().find((path) => path.endsWith('.js'))}`.slice(filesPath.length)
  const plain = pageFile(name, {})
  const small = pageFile(name, { 'accept-encoding': 'br, gzip' })
  expect(small?.headers['content-encoding']).toBe('gzip')
  expect(gunzipSync(small?.body ?? '')).toEqual(plain?.body)
  expect(pageFile(name, { 'accept-encoding': 'gzip;q=0' })?.headers).not.toHaveProperty('content-encoding')
  const etag = plain?.headers['etag'] ?? ''
  expect(pageFile(name, { 'if-none-match': etag })).toMatchObject({ status: 304, body: Buffer.alloc(0) })
})

test('all files of the page together take less than 60 KB compressed', () => {
  const bytes = (path: string) =>
    pageFile(`/${path}`.slice(filesPath.length), { 'accept-encoding': 'gzip' })?.body.length
  const sizes = [pageOrText('', { ...browser, 'accept-encoding': 'gzip' }).body.length, ...names().map(bytes)]
  expect(sizes.reduce((sum: number, size) => sum + (size ?? Infinity), 0)).toBeLessThan(60_000)
})
