import { expect, test } from 'vitest'
import { clientNetwork } from '../src/client-network.ts'

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['::FFFF:c000:0207', '192.0.2.7'],
  ['0:0:0:0:0:ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::', '2001:db8:1:2::/64'],
  ['2001:0DB8:0001:0002::6', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8:0:0:1::', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['::', '0:0:0:0::/64'],
  ['::ffff:0:192.0.2.7', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64%eth0'],
  ['', ''],
  ['/run/tenure.sock', '/run/tenure.sock'],
])('clientNetwork maps the address "%s" to "%s"', (address, network) => {
  expect(clientNetwork(address)).toBe(network)
})

test('clientNetwork distinguishes two networks that differ only in the last bit of their prefix', () => {
  expect(clientNetwork('2001:db8:0:1::1')).not.toBe(clientNetwork('2001:db8:0:0::1'))
})
