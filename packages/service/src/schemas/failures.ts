import { Type } from '@sinclair/typebox'
import { errorStatus, type ServiceErrorCode } from '../common/errors.ts'
import { leadership, named, OneOf, Term } from './common.ts'

export const Code = OneOf('The error code, for programs.', ...(Object.keys(errorStatus) as ServiceErrorCode[]))
const Failure = named(
  'Failure',
  {
    ok: Type.Literal(false, { description: 'The request failed.' }),
    error: Code,
    message: Type.String({ description: 'What is wrong, as readable text.' }),
    field: Type.Optional(Type.String({ description: 'The invalid field of the request, if it is a single one.' })),
    current_leader: Type.Optional(leadership.leader),
    previous_leader: leadership.previous_leader,
    highest_term: Type.Optional(Term),
    min_ttl_ms: Type.Optional(
      Type.Integer({ description: 'With INVALID_TTL: the shortest allowed lease duration.', examples: [2000] }),
    ),
    max_ttl_ms: Type.Optional(
      Type.Integer({ description: 'With INVALID_TTL: the longest allowed lease duration.', examples: [15000] }),
    ),
    retry_after_ms: leadership.retry_after_ms,
    request_id: Type.Optional(Type.String({ description: 'Identifies the request in the service’s log.' })),
  },
  { description: 'Every error has this shape.' },
)

const meanings: Record<number, string> = {
  400: 'INVALID_REQUEST: the request is not valid. INVALID_TTL: the duration is outside the policy.',
  401: 'UNAUTHORIZED: the caller is not identified.',
  403: 'UNAUTHORIZED: the caller may not do this.',
  404: 'NOT_FOUND: the group does not exist.',
  409: 'NOT_LEADER: this node does not lead in this term. CONFLICT: the request conflicts with the current state.',
  413: 'TOO_LARGE: the body is too large.',
  415: 'INVALID_REQUEST: the body must be application/json.',
  429: 'RATE_LIMITED: too many requests, or too large ones.',
  503: 'BACKEND_UNAVAILABLE: nothing can be made durable now. Retry later.',
}

/** Returns the failures that every route can have, plus these, for the OpenAPI document. */
export function failures(...statuses: readonly number[]) {
  const all = [400, 401, 403, 429, 503, ...statuses]
  const content = { 'application/json': { schema: Failure } }
  return Object.fromEntries(all.map((status) => [status, { description: meanings[status], content }]))
}

/** Additional failures of routes with a body. */
export const bodyFailures = [413, 415] as const
