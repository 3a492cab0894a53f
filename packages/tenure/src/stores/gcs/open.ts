import { systemClock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import type { Environment } from '../../clients/http/environment.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { gcsStore } from './index.ts'
import { metadataFetch } from './fetch.ts'

/** The required form of a URL. */
export const gcsUrlRule =
  'it must be "gs://bucket/prefix". Optional parameters are "endpoint" (another address for the service) and "writeIntervalMs"'

/**
 * Opens the bucket that a URL names, as the service account of this machine or pod. Undefined if the URL is invalid.
 */
export function openGcs(url: string, environment: Environment): InspectableStore | undefined {
  const [, bucket, prefix, query] = /^gs:\/\/([\w.-]+)(?:\/([^?#@]*))?(?:\?([^#]*))?$/i.exec(url) ?? []
  const settings = Object.fromEntries(new URLSearchParams(query))
  const { endpoint = emulatorIn(environment), writeIntervalMs, ...others } = settings
  if (bucket === undefined || Object.keys(others).length > 0) return undefined
  const pace = writeIntervalMs === undefined ? undefined : Number(writeIntervalMs)
  const place = { bucket, prefix: prefix || undefined, endpoint, writeIntervalMs: pace }
  // An emulator on this machine. It does not authenticate callers, and must not receive a token.
  if (endpoint !== undefined && /^http:/i.test(endpoint)) return gcsStore({ ...place, fetch })
  if (environment['GOOGLE_APPLICATION_CREDENTIALS']) throw hasKeyFile()
  return gcsStore({ ...place, fetch: metadataFetch(systemClock, environment['GCE_METADATA_HOST'] || undefined) })
}

/** Reads the variable in the same way as Google's own libraries. */
function emulatorIn(environment: Environment): string | undefined {
  const host = environment['STORAGE_EMULATOR_HOST']
  if (!host) return undefined
  return /^https?:/i.test(host) ? host : `http://${host}`
}

function hasKeyFile(): TenureError {
  const text =
    'GOOGLE_APPLICATION_CREDENTIALS is set, but "gs:" does not read key files: it uses the Google Cloud metadata server. Unset it, or use gcsStore() with a "fetch" that identifies the caller.'
  return new TenureError('UNAUTHORIZED', text)
}
