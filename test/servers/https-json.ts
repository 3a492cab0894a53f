import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'

/** One request, and its credentials. */
export interface JsonRequest {
  readonly url: string
  readonly path: string
  readonly method?: string | undefined
  readonly body?: unknown
  /** Default: JSON, or a merge patch for PATCH. */
  readonly contentType?: string | undefined
  /** The CA of the server in PEM. */
  readonly ca: string
  readonly token?: string | undefined
  readonly clientCertificate?: { readonly cert: string; readonly key: string } | undefined
  readonly timeoutMs?: number | undefined
}

/** A server's answer. The body is parsed as JSON, or is the text if it is not JSON. */
export interface JsonResponse<Body> {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Body
}

/**
 * Sends a request on its own connection. It shares no code with the library's client, so that it does not share its
 * bugs.
 */
export async function requestJson<Body = unknown>(options: JsonRequest): Promise<JsonResponse<Body>> {
  const { url, path, method = 'GET', body, ca, token, clientCertificate, timeoutMs = 10_000 } = options
  const { contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json' } = options
  const content = body === undefined ? undefined : JSON.stringify(body)
  const sent = request(new URL(path, url), {
    method,
    ca,
    ...clientCertificate,
    agent: false,
    signal: AbortSignal.timeout(timeoutMs),
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(content === undefined
        ? {}
        : {
            'content-type': contentType,
            'content-length': Buffer.byteLength(content),
          }),
    },
  }).end(content)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const received = await text(response)
  const { statusCode: status = 0, headers } = response
  const isJson = headers['content-type']?.startsWith('application/json')
  return { status, headers, body: (isJson ? JSON.parse(received) : received) as Body }
}
