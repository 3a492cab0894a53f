import { isObject } from '@tenure/internal/objects'
import type { Finding } from '../../store-kit/diagnostics.ts'

/** Problems with a bucket according to its description, worst first. */
export function findingsOfBucket(
  description: Readonly<Record<string, unknown>>,
  bucket: string,
  folder: string,
): readonly Finding[] {
  const { versioning, retentionPolicy, softDeletePolicy } = description
  const rules = deletionRules(description['lifecycle']).filter((condition) => reaches(condition, folder))
  const findings: Finding[] = []
  const isOld = (condition: LifecycleCondition) =>
    condition['isLive'] === false || Number(condition['numNewerVersions']) > 0 || 'daysSinceNoncurrentTime' in condition
  if (rules.some((condition) => !isOld(condition))) {
    const text = `A lifecycle rule deletes objects in "${folder}": an election without a leader for that long restarts at term 1. Exclude this prefix from the rule.`
    findings.push({ risk: 'unsafe', text })
  }
  if (isObject(retentionPolicy)) {
    const text =
      'The bucket has a retention policy: objects cannot be overwritten, so leases cannot be renewed. Use a bucket without one.'
    findings.push({ risk: 'tight', text })
  }
  if (isObject(versioning) && versioning['enabled'] === true && !rules.some(isOld)) {
    const text = `The bucket keeps every version of every object: with a lease of 15 s that is 17,280 a day for each election. Add a lifecycle rule that deletes noncurrent versions in "${folder}".`
    findings.push({ risk: 'tight', text })
  }
  const keptSeconds = isObject(softDeletePolicy) ? Number(softDeletePolicy['retentionDurationSeconds']) : 0
  if (keptSeconds > 0) {
    const text = `The bucket keeps overwritten objects for ${Math.round(keptSeconds / 86_400)} days (soft delete), which are billed. Turn it off: gcloud storage buckets update gs://${bucket} --clear-soft-delete`
    findings.push({ risk: 'tight', text })
  }
  return findings
}

type LifecycleCondition = Readonly<Record<string, unknown>>

function deletionRules(lifecycle: unknown): LifecycleCondition[] {
  const rules: unknown = isObject(lifecycle) ? lifecycle['rule'] : undefined
  if (!Array.isArray(rules)) return []
  return rules.filter(isObject).flatMap(({ action, condition }) => {
    const deletes = isObject(action) && action['type'] === 'Delete'
    return deletes && isObject(condition) ? [condition] : []
  })
}

/** True if a rule may apply to objects in the folder. */
function reaches({ matchesPrefix, matchesSuffix }: LifecycleCondition, folder: string): boolean {
  const hasSuffix =
    !Array.isArray(matchesSuffix) || matchesSuffix.some((suffix) => /^(.*[.])?(record|term)$/.test(String(suffix)))
  const prefixes = Array.isArray(matchesPrefix) ? matchesPrefix.map(String) : ['']
  return hasSuffix && prefixes.some((prefix) => folder.startsWith(prefix) || prefix.startsWith(folder))
}
