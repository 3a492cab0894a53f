import { TenureError } from '../../errors.ts'
import { isObject } from '@tenure/internal/objects'

/** What the API server answered. `body` is undefined if it was not JSON. */
export interface ApiAnswer {
  readonly status: number
  readonly body: unknown
}

/** The API server refused a call, or its answer does not fit the call. */
export class ApiError extends TenureError {
  readonly status: number

  /** `advice` is what to do if a right is missing. */
  constructor(what: string, { status, body }: ApiAnswer, advice?: string) {
    const denied = status === 401 || status === 403
    super(denied ? 'UNAUTHORIZED' : 'BACKEND_UNAVAILABLE', `${what}: ${explain(status, body, advice)}`, {
      retryable: status === 410 || status === 429 || status >= 500,
    })
    this.status = status
  }
}

/** The `reason` of a Kubernetes Status object; undefined if the answer is something else, a proxy's page perhaps. */
export function reasonOf({ body }: ApiAnswer): string | undefined {
  return isStatus(body) && typeof body['reason'] === 'string' ? body['reason'] : undefined
}

function explain(status: number, body: unknown, advice: string | undefined): string {
  const said = isStatus(body) && typeof body['message'] === 'string' ? body['message'] : undefined
  if (status === 401) {
    return 'the API server does not know the caller (401). Look at the token or the certificate that is presented.'
  }
  if (status === 403) {
    const why = said === undefined ? '' : ` ${said.replace(/\.?$/, '.')}`
    return `the API server forbids it (403).${why} ${adviceFor(body, said) ?? advice ?? 'Bind the Role of deploy/kubernetes to the user that the program runs as.'}`
  }
  if (said !== undefined) return `the API server answered ${status}, ${said}`
  return status >= 200 && status < 300
    ? `the answer (${status}) is not an object of the Kubernetes API.`
    : `the answer (${status}) does not come from a Kubernetes API server.`
}

/** What to do about a 403 that a Role would not mend; undefined if a right is missing. */
function adviceFor(body: unknown, said: string | undefined): string | undefined {
  if (said === undefined) return undefined
  // An unknown caller must not be given rights.
  if (said.includes('system:anonymous')) return 'No credentials were accepted: look at what is presented.'
  if (isTerminating(body)) {
    return 'No right is missing: the namespace is being deleted. Create it again when it is gone, or use another one.'
  }
  // The API server's words for a missing right, by whichever authorizer.
  if (/ cannot \S+ resource /.test(said)) return undefined
  return 'No right is missing: an admission rule (a quota, a policy or a webhook) refuses it. Look at that rule.'
}

function isTerminating(body: unknown): boolean {
  const details = isStatus(body) ? body['details'] : undefined
  const causes = isObject(details) ? details['causes'] : undefined
  return Array.isArray(causes) && causes.some((cause) => isObject(cause) && cause['reason'] === 'NamespaceTerminating')
}

function isStatus(body: unknown): body is Record<string, unknown> {
  return isObject(body) && body['kind'] === 'Status'
}
