import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'

/**
 * Returns the address to listen on. A host name is resolved here, so that the service listens on the address that was
 * checked.
 */
export async function addressOf(host: string): Promise<string> {
  return isIP(host) ? host : (await lookup(host)).address
}
