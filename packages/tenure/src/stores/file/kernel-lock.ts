import { open, stat, type FileHandle } from 'node:fs/promises'
import type { Clock } from '../../clock.ts'
import { TenureError } from '../../errors.ts'
import { errnoOf } from './filesystem.ts'

type TryLock = (fd: number) => boolean

const lockPackage: string = 'fs-native-extensions'
let loaded: TryLock | undefined

/**
 * Runs `action` while this process alone holds the kernel's lock on the file at `path`: an open file description lock
 * on Linux, flock on macOS, LockFileEx on Windows. The kernel frees it when the process dies.
 */
export function withKernelLock<T>(
  path: string,
  clock: Clock,
  signal: AbortSignal,
  action: () => Promise<T>,
): Promise<T> {
  return inTurn(path, async () => {
    const handle = await lock(path, clock, signal)
    try {
      return await action()
    } finally {
      // Closing is what unlocks; the file is empty, so there is nothing that a failed close could lose.
      await handle.close().catch(() => {})
    }
  })
}

async function lock(path: string, clock: Clock, signal: AbortSignal): Promise<FileHandle> {
  const tryLock = (loaded ??= await loadLock())
  // A lock that waits would block one of Node's few pool threads, so it is tried again and again. The file is opened
  // anew each time: the lock's file may have been replaced by hand.
  for (let tries = 1; ; tries++) {
    signal.throwIfAborted()
    const handle = await open(path, 'a+')
    let locked = false
    try {
      locked = lockNow(tryLock, handle, path) && (await isStillAt(handle, path))
      if (locked) return handle
    } finally {
      if (!locked) await handle.close().catch(() => {})
    }
    const delayMs = Math.min(tries, 16) * (0.5 + clock.random())
    await new Promise<void>((resolve) => clock.setTimer(delayMs, resolve))
  }
}

function lockNow(tryLock: TryLock, handle: FileHandle, path: string): boolean {
  try {
    return tryLock(handle.fd)
  } catch (cause) {
    throw new TenureError(
      'LOCK_UNAVAILABLE',
      `The kernel refuses to lock "${path}": ${cause instanceof Error ? cause.message : String(cause)}. ` +
        'Choose a directory on a local file system that supports locks.',
      { cause },
    )
  }
}

async function isStillAt(handle: FileHandle, path: string): Promise<boolean> {
  const held = await handle.stat({ bigint: true })
  try {
    const named = await stat(path, { bigint: true })
    return named.dev === held.dev && named.ino === held.ino
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false
    throw error
  }
}

async function loadLock(): Promise<TryLock> {
  try {
    const found: { tryLock?: unknown; default?: { tryLock?: unknown } } = await import(lockPackage)
    const tryLock = found.default?.tryLock ?? found.tryLock
    if (typeof tryLock !== 'function') throw new TypeError(`${lockPackage} has no function "tryLock"`)
    return tryLock as TryLock
  } catch (cause) {
    throw new TenureError(
      'LOCK_UNAVAILABLE',
      `The file store needs the package "${lockPackage}" for its kernel lock, and it cannot be loaded: ` +
        `${cause instanceof Error ? cause.message : String(cause)}. Run: npm install ${lockPackage}`,
      { cause },
    )
  }
}

const turns = new Map<string, Promise<unknown>>()

/** Calls of one process line up here, so that they don't race each other for the kernel's lock. */
function inTurn<T>(key: string, action: () => Promise<T>): Promise<T> {
  const turn = (turns.get(key) ?? Promise.resolve()).then(action)
  const settled = turn
    .catch(() => {})
    .then(() => {
      if (turns.get(key) === settled) turns.delete(key)
    })
  turns.set(key, settled)
  return turn
}
