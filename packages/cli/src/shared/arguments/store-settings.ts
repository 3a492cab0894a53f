import type { Metadata } from 'tenure'
import { parseLoopbackAddress } from './addresses.ts'
import { parseDuration } from './durations.ts'
import { listSetting, setting, toggle, type SettingValues, type Setting } from './settings.ts'
import { fileOf, hostOf, nameOf, metadataOf, urlOf } from './values.ts'

/**
 * The client's credentials. Each file is read again before each call. The token itself can be given only in
 * TENURE_TOKEN.
 */
const credentialSettings = {
  tokenFile: setting(
    { placeholder: 'file', help: 'the file with the token for a service; TENURE_TOKEN can contain the token itself' },
    fileOf,
  ),
  caFile: setting({ placeholder: 'file', help: 'the CA certificates to trust for a service or database, PEM' }, fileOf),
  certFile: setting({ placeholder: 'file', help: 'the client certificate for a service or database, PEM' }, fileOf),
  keyFile: setting({ placeholder: 'file', help: 'the private key of that certificate, PEM' }, fileOf),
}

const timeout = setting(
  { placeholder: 'duration', help: 'how long to wait for an answer', shownDefault: '10s' },
  parseDuration,
  10_000,
)

/** The store settings of commands that campaign. Their call timeout follows from the lease. */
export const candidateStoreSettings = {
  store: setting(
    {
      placeholder: 'url',
      help: 'file:///dir, kubernetes://namespace, multicluster://namespace, etcd://host:2379, consul://host:8500, mysql://host/database, postgres://host/database, redis://host:6379, nats://host:4222/bucket, dynamodb://table, s3://bucket, azblob://account/container, gs://bucket, sqlite:///file.db, or https://host for a service',
      alias: 'url',
    },
    urlOf,
  ),
  ...credentialSettings,
}

/** The store settings of commands that only read. */
export const storeSettings = { ...candidateStoreSettings, timeout }

/** The settings of commands that work only with a service. */
export const serviceSettings = {
  url: setting(
    { placeholder: 'url', help: 'the address of a service, such as https://elections.example.com', alias: 'store' },
    urlOf,
  ),
  ...credentialSettings,
  timeout,
}

export const json = toggle('print JSON, one object per line')

export const jsonLog = toggle('log as JSON, one object per line')

export const allowedHost = listSetting(
  {
    placeholder: 'name',
    help: 'a host name to accept in requests besides localhost and its own addresses; may be repeated',
  },
  hostOf,
)

export const metrics = setting(
  {
    placeholder: 'address',
    help: 'serve GET /metrics for Prometheus on this address; a port alone is loopback only, :9464 is every address',
  },
  parseLoopbackAddress,
)

export const identity = setting(
  { placeholder: 'name', help: 'the name of this candidate, unique in the election' },
  nameOf,
)

export const hostIdentity = { ...identity, shownDefault: 'the node of the token, else the host name' }

export const metadata: Setting<Metadata | undefined> = {
  ...setting(
    {
      placeholder: 'pair',
      help: 'published while it leads: key=value, may be repeated, or a JSON object such as {"zone":"a"}',
    },
    metadataOf,
  ),
  parse: (texts) => Object.fromEntries(texts.flatMap((text) => Object.entries(metadataOf(text)))),
  many: 'as-flag',
}

export const ttl = setting(
  { placeholder: 'duration', help: 'how long a lease lasts unless it is renewed', shownDefault: '15s' },
  parseDuration,
  15_000,
)

export type StoreCredentials = SettingValues<typeof credentialSettings>
