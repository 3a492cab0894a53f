import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Agent, createServer, request } from 'node:https'
import { join } from 'node:path'
import type { ApiServer } from '../servers/cluster.ts'
import { files } from '../servers/kube-apiserver.ts'
import { freePort } from '../servers/free-port.ts'

/** A request that reached the proxy. */
export interface ProxiedRequest {
  readonly method: string
  readonly path: string
  readonly isWatch: boolean
  readonly atMs: number
  /** When its answer was complete or its connection was closed. */
  endedAtMs?: number
  /** The status of its answer, once there is one. */
  status?: number
}

/**
 * The proxy's action for a request: send this answer itself, do nothing (`silence`), forward the request and drop the
 * answer (`reply lost`), or forward the request once the promise has resolved.
 */
export type ProxyAnswer =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body: unknown }
  | 'silence'
  | 'reply lost'
  | Promise<void>

/** An HTTPS proxy for the API server, with the same certificate. It records all requests and forwards them. */
export interface ApiServerProxy {
  readonly port: number
  readonly requests: readonly ProxiedRequest[]
  /** Called before each request is forwarded. A result replaces the answer. */
  answer: ((request: ProxiedRequest) => ProxyAnswer | undefined) | undefined
  /** The added latency of each call in milliseconds, half before and half after the API server. Default: 0. */
  latencyMs: number
  /** Closes every connection. */
  cut(): void
  stop(): void
}

export async function startApiServerProxy(cluster: ApiServer, nowMs: () => number): Promise<ApiServerProxy> {
  const read = (file: string) => readFileSync(join(cluster.directory, file), 'utf8')
  const agent = new Agent({ keepAlive: true, ca: cluster.ca })
  const requests: ProxiedRequest[] = []
  const server = createServer(
    { cert: read(files.serverCa), key: read(files.serverCa.replace(/crt$/, 'key')) },
    (incoming, response) => {
      const { method = '', url: path = '' } = incoming
      const isWatch = new URLSearchParams(path.split('?')[1]).has('watch')
      const seen: ProxiedRequest = { method, path, isWatch, atMs: nowMs() }
      requests.push(seen)
      response.once('close', () => {
        seen.endedAtMs = nowMs()
        if (response.headersSent) seen.status = response.statusCode
      })
      const answer = front.answer?.(seen)
      if (answer instanceof Promise)
        return void answer.then(() => passOn(incoming, response, { port: cluster.port, agent, latencyMs: 0 }))
      if (!answer || answer === 'reply lost')
        return delayed(front.latencyMs / 2, () =>
          passOn(incoming, answer ? undefined : response, { port: cluster.port, agent, latencyMs: front.latencyMs }),
        )
      incoming.resume()
      if (answer === 'silence') return
      response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers })
      response.end(JSON.stringify(answer.body))
    },
  )
  const front: ApiServerProxy = {
    port: await freePort(),
    requests,
    answer: undefined,
    latencyMs: 0,
    cut: () => server.closeAllConnections(),
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

interface Upstream {
  readonly port: number
  readonly agent: Agent
  readonly latencyMs: number
}

/**
 * Forwards a request. Without a response, the answer is dropped. A request that the client has abandoned still arrives.
 */
function passOn(incoming: IncomingMessage, response: ServerResponse | undefined, to: Upstream): void {
  const { method, url: path, headers } = incoming
  const { port, agent, latencyMs } = to
  const upstream = request({ host: '127.0.0.1', port, agent, method, path, headers }, (answer) => {
    if (!response) return void answer.resume()
    const reply = (act: () => void) => delayed(latencyMs / 2, () => void (response.destroyed || act()))
    reply(() => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      // A watch sends no data at first.
      response.flushHeaders()
    })
    answer.on('error', () => response.destroy())
    answer.on('data', (chunk) => reply(() => void response.write(chunk)))
    answer.on('end', () => reply(() => void response.end()))
  })
  upstream.on('error', () => response?.destroy())
  response?.on('close', () => upstream.destroy())
  incoming.pipe(upstream)
}

/** Runs an action later. Actions with the same delay keep their order. */
function delayed(ms: number, act: () => void): void {
  if (ms === 0) act()
  else setTimeout(act, ms)
}
