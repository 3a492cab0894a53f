import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { TestProject } from 'vitest/node'
import { apiServerAt, startCluster, type ApiServer, type Cluster } from './cluster.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The socket at which workers request the shared API server. */
    clusterSocket: string
  }
}

type Place = Pick<ApiServer, 'directory' | 'url' | 'port'>

/** Vitest calls this once before all tests of a group. The API server starts when the first suite requests it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-cluster-'))
  const socket = join(folder, 'socket')
  let cluster: Promise<Cluster> | undefined
  const server = createServer((_request, response) => {
    cluster ??= startCluster()
    cluster.then(
      ({ directory, url, port }) => response.end(JSON.stringify({ directory, url, port } satisfies Place)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  server.listen(socket)
  await once(server, 'listening')
  project.provide('clusterSocket', socket)
  return async () => {
    server.close()
    server.closeAllConnections()
    await (await cluster?.catch(() => undefined))?.stop()
    rmSync(folder, { recursive: true })
  }
}

/**
 * Returns the API server that all suites of this run share, with a new namespace for this suite. No suite may disturb
 * it.
 */
export async function shareCluster(): Promise<ApiServer> {
  const place = JSON.parse(await ask(inject('clusterSocket'))) as Place
  const namespace = `suite-${crypto.randomUUID()}`
  const shared = apiServerAt(place, namespace)
  const { status } = await shared.admin.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
  if (status !== 201) throw new Error(`kube-apiserver answered ${status} to the creation of a namespace`)
  return shared
}

async function ask(socketPath: string): Promise<string> {
  // A kept-alive connection may have ended while a test blocked this process.
  const [response] = (await once(get({ socketPath, agent: false }), 'response')) as [IncomingMessage]
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  if (response.statusCode !== 200) throw new Error(text)
  return text
}
