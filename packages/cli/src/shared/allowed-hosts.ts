import type { IncomingMessage } from 'node:http'

const loopback = ['localhost', '127.0.0.1', '[::1]']

/**
 * The host names that a small server accepts. A web page can make its own name resolve to this machine (DNS rebinding),
 * and a browser then lets it read the answers. Such requests carry the page's host name, so they can be rejected.
 */
export class AllowedHosts {
  readonly #names: ReadonlySet<string>

  constructor(listen: string, more: readonly string[]) {
    this.#names = new Set([...loopback, literal(listen), ...more].map((name) => name.toLowerCase()))
  }

  allows({ headers, socket }: IncomingMessage): boolean {
    const { host } = headers
    // HTTP/1.0 requests have no Host. Health checks use HTTP/1.0, browsers do not.
    if (host === undefined) return true
    const name = withoutPort(host).toLowerCase()
    // A server on every address also accepts the address at which the request arrived. A kubelet uses that address.
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
