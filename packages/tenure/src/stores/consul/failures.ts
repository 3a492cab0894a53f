import { isObject } from '@tenure/internal/objects'
import { TenureError } from '../../common/errors.ts'
import { objectOf } from '../../clients/http/body.ts'

const tokenAdvice =
  'Pass a token (CONSUL_HTTP_TOKEN, or "token") whose policy has "write" for all keys under the prefix, as in key_prefix "tenure/" { policy = "write" }.'

/** Converts an unsuccessful answer to an error. `peer` names the agent. */
export function errorOf(peer: string, status: number, text: string): TenureError {
  const said = `${peer} answered ${status}: ${shortened(text)}`
  if (status === 401 || status === 403) return new TenureError('UNAUTHORIZED', `${said} ${tokenAdvice}`)
  if (status === 413) {
    const advice = 'Raise "kv_max_value_size" and "txn_max_req_len", or use a smaller checkpoint.'
    return new TenureError('TOO_LARGE', `${said} ${advice}`)
  }
  if (status === 404) {
    const advice = 'Check that the address belongs to an agent of Consul 1.13 or newer.'
    return new TenureError('BACKEND_UNAVAILABLE', `${said} ${advice}`)
  }
  const advice = /no cluster leader|no known consul servers/i.test(text)
    ? ' Consul has no leader: most of its servers must be running and reachable.'
    : ''
  const retryable = status === 429 || status >= 500
  return new TenureError('BACKEND_UNAVAILABLE', `${said}${advice}`, { retryable })
}

/** The texts of a transaction whose keys differ from what it compared. */
const differs = /index is stale|failed index check|doesn't exist/

/**
 * The error of a transaction that was rolled back. Undefined if it was refused only because its keys differ. Every other
 * reason counts as an error, because a refusal would be reported as another holder's lease.
 */
export function errorOfTransaction(peer: string, text: string): TenureError | undefined {
  const { Errors: errors } = objectOf(text) ?? {}
  if (!Array.isArray(errors) || errors.length === 0) return malformedResponse(peer, 'it names no reason for a conflict')
  const reasons = errors.map((error: unknown) => String(isObject(error) ? error['What'] : error))
  const reason = reasons.find((one) => !differs.test(one))
  if (reason === undefined) return undefined
  if (/permission denied|acl not found/i.test(reason)) return errorOf(peer, 403, reason)
  return new TenureError('BACKEND_UNAVAILABLE', `${peer} rolled back a transaction: ${shortened(reason)}`)
}

/** The error for an answer that does not match the request. */
export function malformedResponse(peer: string, what: string): TenureError {
  const text = `${peer} sent a malformed response: ${what}. Check that the address belongs to Consul.`
  return new TenureError('BACKEND_UNAVAILABLE', text)
}

function shortened(text: string): string {
  return text.trim().slice(0, 300).replace(/\.?$/, '.')
}
