import { expect, test } from 'vitest'
import { withoutSecrets } from '../../src/run/environment.ts'

test('withoutSecrets removes the token, the passwords, and URLs that contain a password, and keeps the rest', () => {
  const kept = {
    PATH: '/bin',
    TENURE_TOKEN_FILE: '/run/token',
    TENURE_KEY_FILE: '/run/key',
    TENURE_STORE: 'file:///var/lib/leases',
    TENURE_URL: 'https://a.example,https://b.example',
    TOKEN: 'not ours',
  }
  const secrets = { TENURE_TOKEN: 'a', TENURE_STORE_PASSWORD: 'b', TENURE_SENTINEL_PASSWORD: 'c' }
  expect(withoutSecrets({ ...kept, ...secrets })).toEqual(kept)
  const { TENURE_STORE: _, TENURE_URL: __, ...rest } = kept
  const urls = { TENURE_STORE: 'postgres://me:hunter2@db/leases', TENURE_URL: 'rediss://cache?password=hunter2' }
  expect(withoutSecrets({ ...rest, ...urls })).toEqual(rest)
})
