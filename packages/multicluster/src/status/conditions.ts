import type { Condition, ConditionType } from 'tenure/internal/multicluster'

/** A relay's assessment of one condition. */
export interface Assessment {
  readonly status: Condition['status']
  /** The reason, in CamelCase and from a fixed list. */
  readonly reason: string
  /** The message, as readable text. */
  readonly message: string
}

/** The conditions that a relay can assess. All others stay unchanged. */
export type Assessments = Readonly<Partial<Record<ConditionType, Assessment>>>

const types: readonly ConditionType[] = ['Ready', 'BackendHealthy', 'CandidateAlive', 'Leading']
const longestMessage = 1024

/** Returns the conditions after these assessments. Undefined if nothing changes. */
export function conditionsAfter(
  before: readonly Condition[],
  assessments: Assessments,
  { generation, wallMs }: { readonly generation: number; readonly wallMs: number },
): readonly Condition[] | undefined {
  let isChanged = false
  const after = types.flatMap((type) => {
    const old = before.find((condition) => condition.type === type)
    const assessment = assessments[type]
    if (!assessment) return old ? [old] : []
    const message = assessment.message.slice(0, longestMessage)
    const { status, reason } = assessment
    if (old?.status === status && old.reason === reason && old.message === message) return [old]
    isChanged = true
    // A new reason for the same status is not a transition.
    const lastTransitionTime = old?.status === status ? old.lastTransitionTime : timeOf(wallMs)
    return [{ type, status, reason, message, lastTransitionTime, observedGeneration: generation }]
  })
  return isChanged ? after : undefined
}

/** Formats a time for a condition, in whole seconds. */
function timeOf(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.\d+Z$/, 'Z')
}
