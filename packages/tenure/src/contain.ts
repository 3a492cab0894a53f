/** Calls back; what that throws, or rejects with although nobody waits for it, is reported. */
export function contain(callBack: () => unknown, report: (cause: unknown) => void): void {
  try {
    Promise.resolve(callBack())
      .catch(report)
      .catch(() => undefined)
  } catch (cause) {
    report(cause)
  }
}
