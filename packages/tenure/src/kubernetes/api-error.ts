import { TenureError } from '../errors.ts'
import { isObject } from '../http/body.ts'

/** What the API server answered. `body` is undefined if it was not JSON. */
export interface ApiAnswer {
  readonly status: number
  readonly body: unknown
}

/** The API server said no, or something that is no answer to what was asked. */
export class ApiError extends TenureError {
  readonly status: number

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
    return 'the API server does not know who asks (401). Look at the token or the certificate that is presented.'
  }
  if (status === 403) {
    const why = said === undefined ? '' : ` ${said.replace(/\.?$/, '.')}`
    // Whoever is not known must not be given rights.
    const unknown = why.includes('system:anonymous')
      ? 'No credentials were accepted: look at what is presented.'
      : advice
    return `the API server forbids it (403).${why} ${unknown ?? 'Bind the Role of deploy/kubernetes to whoever runs this.'}`
  }
  if (said !== undefined) return `the API server answered ${status}, ${said}`
  return status >= 200 && status < 300
    ? `the answer (${status}) is no object of the Kubernetes API.`
    : `the answer (${status}) does not come from a Kubernetes API server.`
}

function isStatus(body: unknown): body is Record<string, unknown> {
  return isObject(body) && body['kind'] === 'Status'
}
