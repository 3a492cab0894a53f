import { isIP } from 'node:net'
import { unavailable, type CommandError } from './errors.ts'
import { InvalidValue } from './invalid-value.ts'

/** The address that a server listens on. */
export interface ListenAddress {
  /** A host name or a bare IP address. `::` means every address of the machine. */
  readonly host: string
  readonly port: number
}

const rule = 'must be HOST:PORT, such as 127.0.0.1:7070, [::1]:7070, localhost:0 or :7070 for every address'

/** Parses `127.0.0.1:7070`, `[::1]:7070`, `localhost:0`, and `:7070` for every address of the machine. */
export function parseAddress(text: string): ListenAddress {
  const [, bracketed, plain = '', digits] = /^(?:\[([^\]]{1,64})\]|([^\s:[\]/@]{0,253})):(\d{1,5})$/.exec(text) ?? []
  if (digits === undefined) throw new InvalidValue(rule, guess(text))
  const port = Number(digits)
  if (port > 65_535) throw new InvalidValue('must have a port from 0 to 65535')
  if (bracketed === undefined) return { host: plain === '' ? '::' : plain, port }
  if (isIP(bracketed) !== 6) throw new InvalidValue('must have an IPv6 address between its brackets')
  return { host: bracketed, port }
}

function guess(text: string): string | undefined {
  if (/^\d+$/.test(text)) return Number(text) <= 65_535 ? `127.0.0.1:${text}` : undefined
  if (isIP(text) === 6) return `[${text}]:7070`
  if (/^[a-z\d.-]{1,253}$/i.test(text)) return `${text}:7070`
  const [, rest] = /^https?:\/\/([^/]{1,253})\/?$/i.exec(text) ?? []
  return rest
}

/** A Unix socket to listen on. */
export interface SocketPath {
  readonly path: string
  /** The file mode. Users with write permission may connect. */
  readonly mode: number
}

/** The shortest limit of all supported systems, which is that of macOS. */
const longestPathBytes = 103
const pathRule = 'must be unix:PATH, such as unix:/run/tenure/jobs.sock, or unix:PATH?mode=0660'

/** Parses an address like {@link parseAddress}, or `unix:PATH`. */
export function parseListen(text: string): ListenAddress | SocketPath {
  if (!text.startsWith('unix:')) return parseAddress(text)
  const [, path, digits = '600'] = /^unix:([^?\0]+)(?:\?mode=0?([0-7]{3}))?$/.exec(text) ?? []
  if (path === undefined) throw new InvalidValue(pathRule)
  if (process.platform === 'win32') throw new InvalidValue('must be HOST:PORT on Windows')
  if (Buffer.byteLength(path) > longestPathBytes) {
    throw new InvalidValue(`must have a path of at most ${longestPathBytes} bytes`)
  }
  return { path, mode: Number.parseInt(digits, 8) }
}

/** Parses an address like {@link parseAddress}. A port alone means loopback. */
export function parseLoopbackAddress(text: string): ListenAddress {
  return parseAddress(/^\d{1,5}$/.test(text) ? `127.0.0.1:${text}` : text)
}

/** Explains why listening failed. Returns undefined for other errors. `flag` is the option that chose the address. */
export function listenFailure(
  error: unknown,
  { host, port }: ListenAddress,
  flag: '--listen' | '--metrics' = '--listen',
): CommandError | undefined {
  const { code, syscall, message } = error as NodeJS.ErrnoException
  if (syscall === 'getaddrinfo') return unavailable(error, `The host "${host}" of ${flag} cannot be resolved.`)
  if (syscall !== 'listen') return undefined
  const why = {
    EADDRINUSE: `another program is listening there. Choose another port with ${flag}; port 0 picks a free one`,
    EADDRNOTAVAIL: 'this machine does not have that address',
    EAFNOSUPPORT: 'this machine has no IPv6. To listen on every IPv4 address, use 0.0.0.0',
    EACCES: 'permission denied; ports below 1024 need extra privileges',
  }[code ?? '']
  return unavailable(error, `tenure cannot listen on ${formatAddress({ host, port })}: ${why ?? message}.`)
}

/** Formats an address so that {@link parseAddress} accepts it. */
export function formatAddress({ host, port }: ListenAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}
