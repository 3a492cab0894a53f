import { AssertionError } from 'node:assert/strict'

/** Only a failed check counts: a mutant that breaks in some other way shows nothing about the check. */
export async function passes(run: () => Promise<void>): Promise<boolean> {
  try {
    await run()
    return true
  } catch (error) {
    if (error instanceof AssertionError) return false
    throw error
  }
}
