import { parseDuration } from './durations.ts'
import { setting, toggle, type Chosen } from './settings.ts'
import { fileOf, nameOf, objectOf, urlOf } from './values.ts'

/** How a service knows who asks. Each file is read anew before each call; a token itself comes by TENURE_TOKEN only. */
const credentialSettings = {
  tokenFile: setting({ placeholder: 'file', help: 'the token for a service; or TENURE_TOKEN holds it' }, fileOf),
  caFile: setting({ placeholder: 'file', help: 'the authorities to trust in a service, PEM' }, fileOf),
  certFile: setting({ placeholder: 'file', help: 'the certificate to show to a service, PEM' }, fileOf),
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
    { placeholder: 'url', help: 'file:///dir, kubernetes://namespace, or the https://host of a service' },
    urlOf,
  ),
  ...credentialSettings,
}

/** Where leases are, for commands that ask. */
export const storeSettings = { ...campaignedStoreSettings, timeout }

/** Where a service is, for commands that only a service can answer. */
export const serviceSettings = {
  url: setting({ placeholder: 'url', help: 'the address of a service, such as https://elections.example.com' }, urlOf),
  ...credentialSettings,
  timeout,
}

export const json = toggle('print JSON, one object to a line')

export const identity = setting({ placeholder: 'name', help: 'who this is to the others' }, nameOf)

export const metadata = setting(
  { placeholder: 'json', help: 'shown to others while it leads, such as {"zone":"a"}' },
  objectOf,
)

export const ttl = setting(
  { placeholder: 'duration', help: 'how long a lease lasts unless it is renewed', shownDefault: '15s' },
  parseDuration,
  15_000,
)

export type Credentials = Chosen<typeof credentialSettings>
