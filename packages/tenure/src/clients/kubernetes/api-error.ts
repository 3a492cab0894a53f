import { isTenureError, TenureError } from '../../common/errors.ts'
import { isObject } from '@tenure/internal/objects'

/** An answer from the API server. `body` is undefined if it was not JSON. */
export interface ApiAnswer {
  readonly status: number
  readonly body: unknown
}

/** The API server refused a call, or its answer does not match the call. */
export class ApiError extends TenureError {
  readonly status: number

  /** `advice` says what to do if a permission is missing. */
  constructor(what: string, { status, body }: ApiAnswer, advice?: string) {
    const denied = status === 401 || status === 403
    super(denied ? 'UNAUTHORIZED' : 'BACKEND_UNAVAILABLE', `${what}: ${explain(status, body, advice)}`, {
      retryable: status === 410 || status === 429 || status >= 500,
    })
    this.status = status
  }
}

/**
 * Whether an error is an {@link ApiError}, even of another copy of the library. In a global installation, the command and
 * the controller may have their own copies, and the command passes a client to the controller.
 */
export function isApiError(error: unknown): error is ApiError {
  return isTenureError(error) && typeof Reflect.get(error, 'status') === 'number'
}

/** The `reason` of a Kubernetes Status object. Undefined if the answer is something else, such as a proxy's page. */
export function reasonOf({ body }: ApiAnswer): string | undefined {
  return isStatus(body) && typeof body['reason'] === 'string' ? body['reason'] : undefined
}

function explain(status: number, body: unknown, advice: string | undefined): string {
  const said = isStatus(body) && typeof body['message'] === 'string' ? body['message'] : undefined
  if (status === 401) {
    return 'the API server could not authenticate the caller (401). Check the token or the client certificate.'
  }
  if (status === 403) {
    const why = said === undefined ? '' : ` ${said.replace(/\.?$/, '.')}`
    return `the API server denied the request (403).${why} ${adviceFor(body, said) ?? advice ?? 'Bind the Role from deploy/kubernetes to the user of the program.'}`
  }
  if (said !== undefined) return `the API server answered ${status}, ${said}`
  return status >= 200 && status < 300
    ? `the answer (${status}) is not an object of the Kubernetes API.`
    : `the answer (${status}) does not come from a Kubernetes API server.`
}

/** Advice for a 403 that a Role would not fix. Undefined if a permission is missing. */
function adviceFor(body: unknown, said: string | undefined): string | undefined {
  if (said === undefined) return undefined
  // Do not advise granting permissions to an unauthenticated caller.
  if (said.includes('system:anonymous'))
    return 'No credentials were accepted: check the token or the client certificate.'
  if (isTerminating(body)) {
    return 'No permission is missing: the namespace is being deleted. Recreate it once it is gone, or use another one.'
  }
  // The API server's wording for a missing permission, from any authorizer.
  if (/ cannot \S+ resource /.test(said)) return undefined
  return 'No permission is missing: an admission rule (a quota, a policy or a webhook) denied it. Check that rule.'
}

function isTerminating(body: unknown): boolean {
  const details = isStatus(body) ? body['details'] : undefined
  const causes = isObject(details) ? details['causes'] : undefined
  return Array.isArray(causes) && causes.some((cause) => isObject(cause) && cause['reason'] === 'NamespaceTerminating')
}

function isStatus(body: unknown): body is Record<string, unknown> {
  return isObject(body) && body['kind'] === 'Status'
}
