import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'

/** Where to listen. A name is looked up here, so that the service listens on the address that was checked. */
export async function addressOf(host: string): Promise<string> {
  return isIP(host) ? host : (await lookup(host)).address
}
