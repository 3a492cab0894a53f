/**
 * Calls a user's callback safely: nothing it does reaches the caller or ends the process. An error that it throws, or
 * that a returned promise or thenable rejects with, goes to `report`. An error that `report` throws is dropped, because
 * there is nobody left to report it to.
 */
export function callSafely(callBack: () => unknown, report: (cause: unknown) => void): void {
  const fail = (cause: unknown) => {
    try {
      report(cause)
    } catch {
      // There is nobody left to report this error to.
    }
  }
  try {
    const result = callBack()
    // This also handles a thenable of another realm or library, whose `then` may throw. Most listeners return nothing,
    // so this is rare.
    if (result !== undefined) new Promise((resolve) => resolve(result)).catch(fail)
  } catch (cause) {
    fail(cause)
  }
}
