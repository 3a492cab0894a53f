import type { AwsCaller } from '../aws/client.ts'
import { awsNameOf, awsStatusOf } from '../aws/failures.ts'
import type { Finding } from '../../store-kit/diagnostics.ts'
import type { LifecycleRule, S3Api } from './api.ts'

/** Problems with a bucket, worst first. Skips settings that the caller may not read. */
export async function inspectBucket(
  call: AwsCaller<S3Api>,
  bucket: string,
  folder: string,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const input = { Bucket: bucket }
  const { Rules: rules = [] } = (await known(call('getBucketLifecycleConfiguration', input, signal))) ?? {}
  const { Status: versioning } = (await known(call('getBucketVersioning', input, signal))) ?? {}
  const own = rules.filter((rule) => rule.Status === 'Enabled' && reaches(rule, folder))
  const findings: Finding[] = []
  for (const rule of own.filter(({ Expiration: { Days: days, Date: date } = {} }) => days !== undefined || date)) {
    const text = `The lifecycle rule ${JSON.stringify(rule.ID ?? '')} deletes objects in "${folder}": an election without a leader for that long restarts at term 1. Exclude this prefix from the rule.`
    findings.push({ risk: 'unsafe', text })
  }
  if (versioning === 'Enabled' && !own.some((rule) => rule.NoncurrentVersionExpiration)) {
    const text = `The bucket keeps every version of every object: with a lease of 15 s that is 17,280 a day for each election. Add a lifecycle rule that expires noncurrent versions in "${folder}".`
    findings.push({ risk: 'tight', text })
  }
  for (const rule of own.filter(({ Transitions: moves = [] }) => moves.length > 0)) {
    const text = `The lifecycle rule ${JSON.stringify(rule.ID ?? '')} moves objects in "${folder}" to another storage class, which may be slow to read. Exclude this prefix from the rule.`
    findings.push({ risk: 'tight', text })
  }
  return findings
}

/** True if a rule may apply to objects in the folder. The objects of this store have no tags. */
function reaches({ Prefix: old, Filter: filter = {} }: LifecycleRule, folder: string): boolean {
  if (filter.Tag || (filter.And?.Tags?.length ?? 0) > 0) return false
  const prefix = filter.Prefix ?? filter.And?.Prefix ?? old ?? ''
  return folder.startsWith(prefix) || prefix.startsWith(folder)
}

async function known<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    // The bucket has no such settings, or the user may not read them, or the server does not support them.
    if (awsNameOf(error) === 'NoSuchLifecycleConfiguration') return undefined
    if ([403, 405, 501].includes(awsStatusOf(error) ?? 0)) return undefined
    throw error
  }
}
