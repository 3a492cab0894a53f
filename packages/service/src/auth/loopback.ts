import { lookup } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** Where to listen. A name is looked up here, so that what was checked is what is listened on. */
export async function addressOf(host: string): Promise<string> {
  return isIP(host) ? host : (await lookup(host)).address
}

/** Whether only this machine can reach it. */
export function isLoopback(address: string): boolean {
  const version = isIP(address)
  return version !== 0 && loopback.check(address, version === 4 ? 'ipv4' : 'ipv6')
}
