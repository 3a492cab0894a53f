import { systemClock } from '../../clock.ts'
import { TenureError } from '../../errors.ts'
import type { Environment } from '../../http/environment.ts'
import type { InspectableStore } from '../finding.ts'
import { gcsStore } from '../gcs.ts'
import { metadataFetch } from './fetch.ts'

/** What a URL must be. */
export const gcsUrlRule =
  'it must be "gs://bucket/prefix", with "?endpoint=" for another address of the service, and "writeIntervalMs"'

/** Opens the bucket that a URL names, as the service account of this machine or pod; undefined if it names none. */
export function openGcs(url: string, environment: Environment): InspectableStore | undefined {
  const [, bucket, prefix, query] = /^gs:\/\/([\w.-]+)(?:\/([^?#@]*))?(?:\?([^#]*))?$/i.exec(url) ?? []
  const settings = Object.fromEntries(new URLSearchParams(query))
  const { endpoint = emulatorIn(environment), writeIntervalMs, ...others } = settings
  if (bucket === undefined || Object.keys(others).length > 0) return undefined
  const pace = writeIntervalMs === undefined ? undefined : Number(writeIntervalMs)
  const place = { bucket, prefix: prefix || undefined, endpoint, writeIntervalMs: pace }
  // A stand-in on this machine: it knows nobody, and gets no token.
  if (endpoint !== undefined && /^http:/i.test(endpoint)) return gcsStore({ ...place, fetch })
  if (environment['GOOGLE_APPLICATION_CREDENTIALS']) throw hasKeyFile()
  return gcsStore({ ...place, fetch: metadataFetch(systemClock, environment['GCE_METADATA_HOST'] || undefined) })
}

/** As Google's own libraries read it. */
function emulatorIn(environment: Environment): string | undefined {
  const host = environment['STORAGE_EMULATOR_HOST']
  if (!host) return undefined
  return /^https?:/i.test(host) ? host : `http://${host}`
}

function hasKeyFile(): TenureError {
  const text =
    'GOOGLE_APPLICATION_CREDENTIALS is set, and "gs:" reads no key files: it asks the metadata server of Google Cloud. Unset it, or use gcsStore() with a "fetch" that identifies the caller.'
  return new TenureError('UNAUTHORIZED', text)
}
