import { isIP } from 'node:net'

/**
 * Returns the key that per-address limits use for a client: its IPv4 address, or the /64 network of its IPv6 address,
 * because one host usually controls a whole /64 network. An IPv4 address that a dual-stack socket shows as
 * `::ffff:192.0.2.1` is the IPv4 address. Anything else, such as the name of a socket, is returned unchanged.
 */
export function clientNetwork(address: string): string {
  if (isIP(address) !== 6) return address
  // Each interface has its own link-local network, so the zone is part of the key.
  const [ip = '', zone] = address.split('%')
  const groups = groupsOf(ip)
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) return ipv4Of(groups)
  const prefix = groups.slice(0, 4).map((group) => group.toString(16))
  return `${prefix.join(':')}::/64${zone === undefined ? '' : `%${zone}`}`
}

/** The eight groups of an IPv6 address. */
function groupsOf(ip: string): number[] {
  const [head = [], tail] = ip.split('::').map((part) => (part === '' ? [] : part.split(':').flatMap(numbersOf)))
  if (!tail) return head
  return [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => 0), ...tail]
}

/** The last group may be an IPv4 address, which represents two groups. */
function numbersOf(group: string): number[] {
  if (!group.includes('.')) return [Number.parseInt(group, 16)]
  const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
  return [a * 256 + b, c * 256 + d]
}

function ipv4Of([, , , , , , high = 0, low = 0]: readonly number[]): string {
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}
