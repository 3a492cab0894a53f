import type { Metadata } from 'tenure'
import { parseOwnAddress } from './addresses.ts'
import { parseDuration } from './durations.ts'
import { listSetting, setting, toggle, type Chosen, type Setting } from './settings.ts'
import { fileOf, hostOf, nameOf, metadataOf, urlOf } from './values.ts'

/** How a service knows its caller. Each file is read again before each call; a token itself comes by TENURE_TOKEN only. */
const credentialSettings = {
  tokenFile: setting({ placeholder: 'file', help: 'the token for a service; or TENURE_TOKEN holds it' }, fileOf),
  caFile: setting({ placeholder: 'file', help: 'the authorities to trust in a service or database, PEM' }, fileOf),
  certFile: setting({ placeholder: 'file', help: 'the certificate to show to a service or database, PEM' }, fileOf),
  keyFile: setting({ placeholder: 'file', help: 'its key, PEM' }, fileOf),
}

const timeout = setting(
  { placeholder: 'duration', help: 'how long an answer may take', shownDefault: '10s' },
  parseDuration,
  10_000,
)

/** Where leases are, for commands that campaign: how long an answer may take follows from the lease. */
export const campaignedStoreSettings = {
  store: setting(
    {
      placeholder: 'url',
      help: 'file:///dir, kubernetes://namespace, multicluster://namespace, etcd://host:2379, postgres://host/database, redis://host:6379, dynamodb://table, s3://bucket, gs://bucket, or the https://host of a service',
      alias: 'url',
    },
    urlOf,
  ),
  ...credentialSettings,
}

/** Where leases are, for commands that ask. */
export const storeSettings = { ...campaignedStoreSettings, timeout }

/** Where a service is, for commands that only a service can answer. */
export const serviceSettings = {
  url: setting(
    { placeholder: 'url', help: 'the address of a service, such as https://elections.example.com', alias: 'store' },
    urlOf,
  ),
  ...credentialSettings,
  timeout,
}

export const json = toggle('print JSON, one object to a line')

export const jsonLog = toggle('log as lines of JSON')

export const allowedHost = listSetting(
  {
    placeholder: 'name',
    help: 'a name by which it may be called, beside localhost and its addresses; may be repeated',
  },
  hostOf,
)

export const metrics = setting(
  {
    placeholder: 'address',
    help: 'answer GET /metrics there, for Prometheus; a port alone is on this machine only, :9464 is every address',
  },
  parseOwnAddress,
)

export const identity = setting({ placeholder: 'name', help: 'the name that others see' }, nameOf)

export const hostIdentity = { ...identity, shownDefault: 'the node of the token, else the name of this host' }

export const metadata: Setting<Metadata | undefined> = {
  ...setting(
    {
      placeholder: 'pair',
      help: 'shown to others while it leads: key=value, again for more, or a JSON object such as {"zone":"a"}',
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

export type Credentials = Chosen<typeof credentialSettings>
