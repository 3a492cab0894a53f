/** Shapes of what an operator asks. */
import { Type } from '@sinclair/typebox'
import { ClusterId, named, OneOf, Sent, UnixMs } from './common.ts'

const maybe = (description: string, example: number) =>
  Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], { description, examples: [example] })
const MaybeText = (description: string, example: string) =>
  Type.Union([Type.String(), Type.Null()], { description, examples: [example] })

const Replica = Type.Object({
  replica: Type.String({ description: 'Its name: the host, and a text that differs with each start.' }),
  role: OneOf('Whether it answers for the groups, or passes calls on.', 'active', 'follower'),
  address: MaybeText('Where other replicas reach it; null on a directory.', 'https://10.0.0.7:7071'),
  since_ms: Type.Union([UnixMs('Unix time.'), Type.Null()], {
    description:
      'Since when it is active, or connected to the active one. Null: it is not connected, or could not be asked.',
    examples: [1735200000000],
  }),
  changes_behind: maybe('Changes that it has not confirmed. Null: more than are kept, or not known.', 0),
  feed_lag_ms: maybe('The age of the oldest of these changes.', 0),
})

export const ReplicasAnswer = named(
  'ReplicasAnswer',
  {
    cluster_id: ClusterId,
    answered_by: Type.String({ description: 'The replica that was asked.', examples: ['web-1-3f2a91c0'] }),
    storage: Type.Object(
      {
        kind: OneOf('Where the groups are kept.', 'directory', 'etcd', 'postgres'),
        healthy: Type.Boolean({ description: 'Whether it answers the replica that was asked, within two seconds.' }),
      },
      { description: 'What keeps the groups.' },
    ),
    active: MaybeText('The name of the active replica. Null: none is known.', 'web-1-3f2a91c0'),
    term: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
      description: 'The term of the active replica: higher with every failover. Not that of a group.',
      examples: [7],
    }),
    replicas: Type.Array(Replica, {
      description:
        'The active one first. A replica that is not connected to it is missing, unless it is the one asked.',
    }),
  },
  { description: 'The replicas, as the one that was asked knows them.' },
)

export const IdentityAnswer = Type.Object(
  {
    subject: Type.String({ description: 'How the service names the caller in its log.', examples: ['ops'] }),
    admin: Type.Boolean({ description: 'Whether it may define and delete groups, and end terms of others.' }),
    reader: Type.Boolean({ description: 'Whether it sees all groups. An administrator does, too.' }),
    expires_at_ms: Type.Union([UnixMs('Unix time.'), Type.Null()], {
      description: 'When its token or certificate expires. Null: it has none.',
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
      description: 'The id of the token, its claim `jti`: what `tenure token sign` printed.',
      examples: ['9b1c0c5e-6f5b-4a50-9d0c-0a4f6f0f2b7e'],
    }),
  },
  { token_id: '9b1c0c5e-6f5b-4a50-9d0c-0a4f6f0f2b7e' },
)
