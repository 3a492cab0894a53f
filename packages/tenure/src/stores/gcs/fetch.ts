import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import { bounded } from '../../store-kit/call-deadline.ts'
import { fieldsOf, parseObject } from '../../store-kit/record-fields.ts'

/** A request to Google Cloud Storage. */
export interface GcsRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

/** The part of a response that is used, for any status. */
export interface GcsResponse {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  text(): Promise<string>
}

/** Sends a request, such as the global `fetch` with a header that identifies the caller. */
export type GcsFetch = (url: string, request: GcsRequest) => Promise<GcsResponse>

const tokenPath = '/computeMetadata/v1/instance/service-accounts/default/token'
const metadataTimeoutMs = 5_000
/** How long before its expiry a token is replaced. The metadata server provides a new one 5 minutes before expiry. */
const earlyMs = 60_000

interface GcsToken {
  readonly text: string
  readonly untilMs: number
}

/** Authenticates with the token of the machine's or pod's service account, which its metadata server provides. */
export function metadataFetch(clock: Clock, host = 'metadata.google.internal'): GcsFetch {
  let token: Promise<GcsToken> | undefined
  const current = async (): Promise<string> => {
    const asked = (token ??= tokenFrom(clock, host))
    try {
      const { text, untilMs } = await asked
      if (untilMs > clock.monotonicMs()) return text
    } catch (error) {
      if (token === asked) token = undefined
      throw error
    }
    if (token === asked) token = undefined
    return current()
  }
  return async (url, request) => {
    const authorization = `Bearer ${await current()}`
    const response = await fetch(url, { ...request, headers: { ...request.headers, authorization } })
    // The token was revoked, or its permissions have changed.
    if (response.status === 401) token = undefined
    return response
  }
}

async function tokenFrom(clock: Clock, host: string): Promise<GcsToken> {
  // All waiting calls share this request, so no call's signal may cancel it.
  const { signal } = new AbortController()
  try {
    const askedMs = clock.monotonicMs()
    const text = await bounded(clock, host, { signal, timeoutMs: metadataTimeoutMs }, async (ending) => {
      const headers = { 'metadata-flavor': 'Google' }
      const response = await fetch(`http://${host}${tokenPath}`, { headers, signal: ending })
      if (response.status !== 200) throw new Error(`it answered ${response.status}`)
      return response.text()
    })
    const fields = fieldsOf(parseObject(text))
    const lastsMs = fields.number('expires_in', (seconds) => seconds >= 0) * 1_000
    return { text: fields.text('access_token'), untilMs: askedMs + Math.max(1_000, lastsMs - earlyMs) }
  } catch (cause) {
    const text = `The metadata server ${host} did not provide a token for Google Cloud Storage: ${messageOf(cause)}. Outside Google Cloud, set "fetch" to a function that identifies the caller.`
    throw new TenureError('UNAUTHORIZED', text, { retryable: true, cause })
  }
}
