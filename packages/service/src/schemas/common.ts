/**
 * Schemas that several routes share. Validation, serialization, and the OpenAPI document all come from these schemas.
 */
import { Type, type ObjectOptions, type Static, type TObject, type TProperties, type TSchema } from '@sinclair/typebox'

const longestMs = 2 ** 31 - 1

/** Schemas that the document defines once, under these names. */
export const shared: TSchema[] = []

export function named<T extends TProperties>($id: string, properties: T, options?: ObjectOptions) {
  shared.push({ ...Type.Object(properties, options), $id })
  return Type.Unsafe<Static<TObject<T>>>({ $ref: `${$id}#` })
}

/** The schema of a request body or query. Unknown fields are rejected. */
export const Sent = <T extends TProperties>(properties: T, example?: unknown) =>
  Type.Object(properties, { additionalProperties: false, ...(example !== undefined && { examples: [example] }) })

export const Milliseconds = (description: string, example: number) =>
  Type.Integer({ minimum: 1, maximum: longestMs, description, examples: [example] })
export const UnixMs = (description: string) => Type.Integer({ description, examples: [1735200000000] })
export const OptionalText = (maxLength: number, description: string, example: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description, examples: [example] }))
/** An enum is faster than a union of literals, which would be tried one by one. */
export const OneOf = <T extends string>(description: string, ...values: readonly T[]) =>
  Type.Unsafe<T>({ type: 'string', enum: values, description })
export const Flag = (description: string) => OneOf(description, 'true', 'false')

export const Term = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'The fencing token. It rises with every new leader.',
  examples: [42],
})
export const ClusterId = Type.String({
  description: 'Identifies the data of this service. It never changes.',
  examples: ['0b6a39c2-5b7f-4d2e-9f7a-3c1f5e2d8a10'],
})

/** Allows only letters, digits, and a few signs, so that an id means the same in a path, a log, and a metric. */
export const groupPattern = '[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}'
export const GroupId = Type.String({
  pattern: `^${groupPattern}$`,
  description: 'The id of the group.',
  examples: ['payments-coordinator'],
})
/** Accepted in bodies, because the specification's node identity also names the group. */
export const SameGroup = Type.Optional(
  Type.String({
    maxLength: 128,
    description: 'The id of the group, as in the path.',
    examples: ['payments-coordinator'],
  }),
)
const nodeId = (description: string, example: string) =>
  Type.String({
    minLength: 1,
    maxLength: 256,
    pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]+$',
    description,
    examples: [example],
  })
export const NodeId = nodeId(
  'The id of the node: at most 256 bytes in Unicode form NFC, without invisible characters, and without leading or trailing blanks.',
  'node_17',
)
export const OptionalNodeId = (description: string, example: string) => Type.Optional(nodeId(description, example))
export const Instance = (description: string) => OptionalText(128, description, '7d0c2f2e-6c1b-4f3a-9d60-0a54d6c6f1de')
/** This is not a record type, because its keys would be compared with a pattern for every response. */
export const Metadata = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description: 'Data that the node provides about itself: at most 4096 bytes of JSON, at most 8 levels deep.',
  examples: [{ ip: '10.0.1.7', zone: 'az-a', version: '1.4.2' }],
})

export const GroupParams = Type.Object({ group_id: GroupId })

export const Leader = named(
  'Leader',
  {
    node_id: Type.String({ description: 'The node that holds the lease, or held it last.', examples: ['node_17'] }),
    term: Term,
    lease_expires_at_ms: UnixMs(
      'When the lease expires, in Unix milliseconds on the server’s clock. For display only.',
    ),
    lease_remaining_ms: Type.Integer({
      minimum: 0,
      description: 'How long the lease lasts from the moment of this response. Programs should use this field.',
      examples: [5000],
    }),
    lease_ttl_ms: Type.Integer({ description: 'The duration that was last requested.', examples: [5000] }),
    acquired_at_ms: UnixMs('When the node became leader.'),
    renewed_at_ms: UnixMs('When the leader last renewed.'),
    metadata: Metadata,
    checkpoint: Type.String({
      description: 'The checkpoint: a short text that a leader leaves to its successors.',
      examples: [''],
    }),
    attempt: Type.String({ description: 'The id of the campaign that won.', examples: ['instance:7d0c'] }),
    instance_start_uuid: Type.Optional(
      Type.String({ description: 'The id of the node’s start that won, if it named one.', examples: ['7d0c'] }),
    ),
    version: Type.String({ description: 'Changes with every write.', examples: ['9f1c.42.0'] }),
    write_id: Type.Optional(
      Type.String({ description: 'The `write_id` of the request that wrote this version.', examples: ['c4f1'] }),
    ),
    successor: Type.Optional(
      Type.String({
        description: 'In `previous_leader`: the node that should lead next, if the resignation named one.',
        examples: ['node_3'],
      }),
    ),
  },
  { description: 'A lease, and the node that holds it or held it last.' },
)
export const leadership = {
  leader: Type.Union([Leader, Type.Null()], { description: 'The leader, or null if there is none.' }),
  previous_leader: Type.Optional(Leader),
  highest_term: Term,
  retry_after_ms: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'How long to wait before retrying. An earlier retry cannot succeed.',
      examples: [800],
    }),
  ),
}

export const IsOk = Type.Literal(true, { description: 'The request succeeded.' })
export const Ok = named('Ok', { ok: IsOk }, { description: 'The request succeeded.' })
