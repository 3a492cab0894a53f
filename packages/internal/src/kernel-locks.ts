/** Kernel locks: open file description locks on Linux, flock on macOS, LockFileEx on Windows. */
export interface KernelLocks {
  tryLock(file: number, offset?: number, length?: number): boolean
  unlock(file: number, offset?: number, length?: number): void
}

/**
 * A variable instead of a literal, because TypeScript would look for the types of a literal, and the package has none.
 */
export const lockPackage: string = 'fs-native-extensions'

/** Loads the addon, which takes tens of milliseconds. Rejects if it is missing or unusable. */
export async function loadKernelLocks(): Promise<KernelLocks> {
  const { default: locks }: { default?: Partial<KernelLocks> } = await import(lockPackage)
  if (typeof locks?.tryLock === 'function' && typeof locks.unlock === 'function') return locks as KernelLocks
  throw new TypeError(`${lockPackage} has no functions "tryLock" and "unlock"`)
}
