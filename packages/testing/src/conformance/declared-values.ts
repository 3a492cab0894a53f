import { usualCheckpointLimitBytes } from 'tenure/internal'
import type { Case } from './case.ts'
import { check, show } from './scene.ts'

/**
 * The form of what a store says about itself. Other cases prove that it is true: the largest record has a checkpoint of
 * exactly the declared size, and the highest term of a store that keeps terms survives the removal of its record.
 */
export const declaredCases: Case[] = [
  {
    name: 'checkpointLimitBytes is at least 4,096 or not declared, and keepsTerms is true, false, or not declared',
    async run({ store }) {
      const limit: unknown = store.checkpointLimitBytes
      const isLimit = Number.isSafeInteger(limit) && Number(limit) >= usualCheckpointLimitBytes
      check(
        limit === undefined || isLimit,
        `checkpointLimitBytes is ${show(limit)}, but every store accepts checkpoints of ${usualCheckpointLimitBytes} bytes.`,
      )
      const keeps: unknown = store.keepsTerms
      check(keeps === undefined || typeof keeps === 'boolean', `keepsTerms is ${show(keeps)}, but must be a boolean.`)
      check(keeps !== true || store.terms, 'keepsTerms is true, but a store without terms has none to keep.')
    },
  },
]
