import type { IncomingMessage } from 'node:http'

const loopback = ['localhost', '127.0.0.1', '[::1]']

/**
 * The names by which a small server may be called. A web page can make its own name resolve to this machine (DNS
 * rebinding), and then a browser lets it read the answers; its requests carry that name.
 */
export class Hosts {
  readonly #names: ReadonlySet<string>

  constructor(listen: string, more: readonly string[]) {
    this.#names = new Set([...loopback, literal(listen), ...more].map((name) => name.toLowerCase()))
  }

  allows({ headers, socket }: IncomingMessage): boolean {
    const { host } = headers
    // HTTP/1.0, which health checks use and browsers do not.
    if (host === undefined) return true
    const name = withoutPort(host).toLowerCase()
    // Where it listens on every address, each of them is a name too: that is how a kubelet calls.
    return this.#names.has(name) || name === literal(socket.localAddress ?? '')
  }
}

function literal(address: string): string {
  const plain = address.replace(/^::ffff:(?=[\d.]+$)/i, '').toLowerCase()
  return plain.includes(':') ? `[${plain}]` : plain
}

function withoutPort(host: string): string {
  return host.replace(/:\d*$/, '')
}
