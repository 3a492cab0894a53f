import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export type Answerer = (request: IncomingMessage, answer: (body: object, status?: number) => void) => void

/** Starts a server in place of a service. It answers with whatever `answerer` sends, or not at all. */
export async function strange(answerer: Answerer): Promise<string> {
  const server = createServer((request: IncomingMessage, response: ServerResponse) =>
    answerer(request, (body, status = 200) => {
      response.writeHead(status, { 'content-type': 'application/json', 'tenure-cluster-id': 'c' })
      response.end(JSON.stringify(body))
    }),
  )
  server.listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
