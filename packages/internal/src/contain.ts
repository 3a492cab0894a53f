/**
 * Calls a user's callback so that nothing it does reaches the caller or ends the process: what it throws, and what a
 * promise or thenable that it returns rejects with, goes to `report`. What `report` throws is dropped, because nobody is
 * left to hear of it.
 */
export function contain(callBack: () => unknown, report: (cause: unknown) => void): void {
  const fail = (cause: unknown) => {
    try {
      report(cause)
    } catch {
      // Whoever reports has nobody to report to.
    }
  }
  try {
    const result = callBack()
    // A thenable of another realm or library counts too, and its `then` may throw. Most listeners return nothing.
    if (result !== undefined) new Promise((resolve) => resolve(result)).catch(fail)
  } catch (cause) {
    fail(cause)
  }
}
