import { expect, test } from 'vitest'
import { isLoopback, isLoopbackHost } from '../src/loopback.ts'

test('isLoopback is true only for loopback addresses', () => {
  for (const address of ['127.0.0.1', '127.255.255.254', '::1', '0:0:0:0:0:0:0:1'])
    expect(isLoopback(address)).toBe(true)
  for (const address of ['128.0.0.1', '0.0.0.0', '::', '::2', 'localhost', '127.1', ''])
    expect(isLoopback(address)).toBe(false)
})

test('isLoopbackHost is true only for URL hosts that name this machine', () => {
  const hostOf = (url: string) => new URL(url).hostname
  for (const url of ['http://localhost:1', 'http://127.0.0.1', 'http://127.1/', 'http://[::1]:80', 'http://[0:0::1]'])
    expect(isLoopbackHost(hostOf(url)), url).toBe(true)
  for (const url of [
    'http://example.com',
    'http://localhost.example.com',
    'http://0.0.0.0',
    'http://[::]',
    'http://10.0.0.1',
  ])
    expect(isLoopbackHost(hostOf(url)), url).toBe(false)
})
