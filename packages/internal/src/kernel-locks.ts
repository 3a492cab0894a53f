/** Locks of the kernel: open file description locks on Linux, flock on macOS, LockFileEx on Windows. */
export interface KernelLocks {
  tryLock(file: number, offset?: number, length?: number): boolean
  unlock(file: number, offset?: number, length?: number): void
}

/** Named by a variable because the package has no types. */
export const lockPackage: string = 'fs-native-extensions'

/** Loads the addon, which takes tens of milliseconds. Rejects where it is missing or of no use. */
export async function loadKernelLocks(): Promise<KernelLocks> {
  const { default: locks }: { default?: Partial<KernelLocks> } = await import(lockPackage)
  if (typeof locks?.tryLock === 'function' && typeof locks.unlock === 'function') return locks as KernelLocks
  throw new TypeError(`${lockPackage} has no functions "tryLock" and "unlock"`)
}
