import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Agent, createServer, request } from 'node:https'
import { join } from 'node:path'
import type { Cluster } from '../servers/cluster.ts'
import { files } from '../servers/kube-apiserver.ts'
import { freePort } from '../servers/server.ts'

/** One request as it reached the front. */
export interface FrontRequest {
  readonly method: string
  readonly path: string
  readonly isWatch: boolean
  readonly atMs: number
}

/** An answer in the API server's place; or none ever, after the request was passed on or instead. */
export type FrontAnswer =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body: unknown }
  | 'silence'
  | 'reply lost'

/** An HTTPS server before the API server, with the same certificate. It keeps a list, and passes everything on. */
export interface Front {
  readonly port: number
  readonly requests: readonly FrontRequest[]
  /** Asked before each request is passed on; what it gives is the answer. */
  answer: ((request: FrontRequest) => FrontAnswer | undefined) | undefined
  stop(): void
}

export async function startFront(cluster: Cluster, nowMs: () => number): Promise<Front> {
  const read = (file: string) => readFileSync(join(cluster.directory, file), 'utf8')
  const agent = new Agent({ keepAlive: true, ca: cluster.ca })
  const requests: FrontRequest[] = []
  const server = createServer(
    { cert: read(files.serverCa), key: read(files.serverCa.replace(/crt$/, 'key')) },
    (incoming, response) => {
      const { method = '', url: path = '' } = incoming
      const isWatch = new URLSearchParams(path.split('?')[1]).has('watch')
      const seen = { method, path, isWatch, atMs: nowMs() }
      requests.push(seen)
      const answer = front.answer?.(seen)
      if (!answer || answer === 'reply lost')
        return passOn(incoming, answer ? undefined : response, cluster.port, agent)
      incoming.resume()
      if (answer === 'silence') return
      response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers })
      response.end(JSON.stringify(answer.body))
    },
  )
  const front: Front = {
    port: await freePort(),
    requests,
    answer: undefined,
    stop() {
      server.close()
      server.closeAllConnections()
      agent.destroy()
    },
  }
  server.listen(front.port, '127.0.0.1')
  await once(server, 'listening')
  return front
}

/** Without a response, nobody hears of the answer. */
function passOn(incoming: IncomingMessage, response: ServerResponse | undefined, port: number, agent: Agent): void {
  const { method, url: path, headers } = incoming
  const upstream = request({ host: '127.0.0.1', port, agent, method, path, headers }, (answer) => {
    if (!response) return void answer.resume()
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    // A watch has nothing to say at first.
    response.flushHeaders()
    answer.on('error', () => response.destroy())
    answer.pipe(response)
  })
  upstream.on('error', () => response?.destroy())
  response?.on('close', () => upstream.destroy())
  incoming.pipe(upstream)
}
