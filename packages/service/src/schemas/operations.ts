/** Schemas of the routes for operators. */
import { Type } from '@sinclair/typebox'
import { ClusterId, named, OneOf, Sent, UnixMs } from './common.ts'

const maybe = (description: string, example: number) =>
  Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], { description, examples: [example] })
const MaybeText = (description: string, example: string) =>
  Type.Union([Type.String(), Type.Null()], { description, examples: [example] })

const Replica = Type.Object({
  replica: Type.String({ description: 'The name of the replica: its host, and a text that differs with each start.' }),
  role: OneOf('The active replica answers for the groups. A follower forwards calls to it.', 'active', 'follower'),
  address: MaybeText('Where other replicas reach it, or null for a data directory.', 'https://10.0.0.7:7071'),
  since_ms: Type.Union([UnixMs('In Unix milliseconds.'), Type.Null()], {
    description:
      'When it became active, or connected to the active replica. Null if it is not connected, or could not be asked.',
    examples: [1735200000000],
  }),
  changes_behind: maybe(
    'Changes that it has not confirmed. Null if there are more than are kept, or if the number is unknown.',
    0,
  ),
  feed_lag_ms: maybe('The age of the oldest unconfirmed change.', 0),
})

export const ReplicasAnswer = named(
  'ReplicasAnswer',
  {
    cluster_id: ClusterId,
    answered_by: Type.String({ description: 'The replica that answered.', examples: ['web-1-3f2a91c0'] }),
    storage: Type.Object(
      {
        kind: OneOf('The kind of storage.', 'directory', 'etcd', 'postgres'),
        healthy: Type.Boolean({ description: 'Whether the storage answers this replica within two seconds.' }),
      },
      { description: 'The storage of the groups.' },
    ),
    active: MaybeText('The name of the active replica, or null if none is known.', 'web-1-3f2a91c0'),
    term: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
      description: 'The term of the active replica, not of a group. It rises with every failover.',
      examples: [7],
    }),
    replicas: Type.Array(Replica, {
      description:
        'The active replica first. A replica that is not connected to it is missing, unless it is the one that answered.',
    }),
  },
  { description: 'The replicas, as far as the replica that answered knows them.' },
)

export const IdentityAnswer = Type.Object(
  {
    subject: Type.String({ description: 'The name of the caller in the service’s log.', examples: ['ops'] }),
    admin: Type.Boolean({
      description: 'Whether the caller may define and delete groups, and end terms of other nodes.',
    }),
    reader: Type.Boolean({ description: 'Whether the caller may read all groups. Administrators also may.' }),
    expires_at_ms: Type.Union([UnixMs('In Unix milliseconds.'), Type.Null()], {
      description: 'When the token or certificate of the caller expires, or null if it has none.',
      examples: [1735200000000],
    }),
  },
  { description: 'The caller.' },
)

export const RevokeBody = Sent(
  {
    token_id: Type.String({
      minLength: 1,
      maxLength: 256,
      pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]+$',
      description: 'The id of the token, its `jti` claim, as `tenure token sign` printed it.',
      examples: ['9b1c0c5e-6f5b-4a50-9d0c-0a4f6f0f2b7e'],
    }),
  },
  { token_id: '9b1c0c5e-6f5b-4a50-9d0c-0a4f6f0f2b7e' },
)
