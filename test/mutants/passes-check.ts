import { AssertionError } from 'node:assert/strict'

/** Only a failed check counts. A mutant that breaks in another way proves nothing about the check. */
export async function passes(run: () => Promise<void>): Promise<boolean> {
  try {
    await run()
    return true
  } catch (error) {
    if (error instanceof AssertionError) return false
    throw error
  }
}
