import { invalidOption } from '../../common/errors.ts'
import { addressesIn, type AddressKind } from '../http/addresses.ts'
import { checkProvided, checkProvidedTls } from '../http/provided.ts'
import type { EtcdCredentials } from './client.ts'

const etcdMembers: AddressKind = { server: 'an etcd member', usualPort: 2379, credentials: '"user" and "password"' }

/** Parses the addresses of one cluster and checks that the credentials may be sent there. */
export function addressesOf(endpoints: unknown, credentials: EtcdCredentials): URL[] {
  return addressesIn(endpoints, credentials, etcdMembers)
}

/** Checks that the credentials are complete, and that each is a string or a function that returns one. */
export function checkCredentials(credentials: EtcdCredentials): void {
  const { user, password } = credentials
  if (user !== undefined && (typeof user !== 'string' || user === '')) {
    throw invalidOption('user', user, 'it must be a non-empty string')
  }
  checkProvided('password', password)
  checkProvidedTls(credentials)
  if ((user === undefined) === (password === undefined)) return
  const [given, missing] = user === undefined ? (['password', 'user'] as const) : (['user', 'password'] as const)
  const inUrl = 'in a URL: etcd://user:password@host, or TENURE_STORE_USER and TENURE_STORE_PASSWORD'
  throw invalidOption(missing, undefined, `it is required because "${given}" is set (${inUrl})`)
}
