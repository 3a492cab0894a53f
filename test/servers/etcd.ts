import { get } from 'node:http'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

const url = (port: number) => `http://127.0.0.1:${port}`

/** etcd, one member. */
export const etcd: ServerKind = {
  name: 'etcd',
  program: programs.etcd,
  args: ({ directory, port }) => {
    // No other member ever comes, so any port will do.
    const peers = 'http://127.0.0.1:0'
    return Object.entries({
      name: 'member',
      'data-dir': join(directory, 'data'),
      'listen-client-urls': url(port),
      'advertise-client-urls': url(port),
      'listen-peer-urls': peers,
      'initial-advertise-peer-urls': peers,
      'initial-cluster': `member=${peers}`,
      'log-level': 'warn',
    }).map(([name, value]) => `--${name}=${value}`)
  },
  async probe({ port }) {
    const request = get(`${url(port)}/health`, { agent: false, timeout: 1_000 })
    request.once('timeout', () => request.destroy(new Error('etcd does not answer')))
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.resume()
    if (response.statusCode !== 200) throw new Error(`etcd answers ${response.statusCode}`)
  },
  url,
  stopSignal: 'SIGKILL',
}
