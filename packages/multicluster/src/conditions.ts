import type { Condition, ConditionType } from 'tenure/stores/multicluster'

/** What a relay has to say about one condition. */
export interface Assessment {
  readonly status: Condition['status']
  /** In CamelCase, from a fixed list. */
  readonly reason: string
  /** For people. */
  readonly message: string
}

/** What a relay knows first-hand. What it does not know stays as it is. */
export type Assessments = Readonly<Partial<Record<ConditionType, Assessment>>>

const types: readonly ConditionType[] = ['Ready', 'BackendHealthy', 'CandidateAlive', 'Leading']
const longestMessage = 1024

/** The conditions after these assessments; undefined if they are those that are there. */
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
    // Another reason for the same status is not a transition.
    const lastTransitionTime = old?.status === status ? old.lastTransitionTime : timeOf(wallMs)
    return [{ type, status, reason, message, lastTransitionTime, observedGeneration: generation }]
  })
  return isChanged ? after : undefined
}

/** As conditions have it: to the second. */
function timeOf(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.\d+Z$/, 'Z')
}
