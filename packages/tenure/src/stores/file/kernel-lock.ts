import { closeSync, fstatSync, lstatSync } from 'node:fs'
import { errnoOf } from '@tenure/internal/errno'
import { loadKernelLocks, lockPackage, type KernelLocks } from '@tenure/internal/kernel-locks'
import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import type { Access } from './access.ts'
import { openLockFile } from './filesystem.ts'

let loading: Promise<KernelLocks> | undefined

/**
 * Starts loading the lock package in advance. Loading takes tens of milliseconds, which is too long during a takeover.
 */
export function preloadLock(): void {
  // Ignore the error here: the call that needs the lock gets it.
  loadLocks().catch(() => {})
}

/**
 * Runs `action` while this process holds the exclusive kernel lock on the file at `path`: an open file description lock
 * on Linux, flock on macOS, LockFileEx on Windows. The kernel releases the lock when the process dies.
 */
export function withKernelLock<T>(
  path: string,
  access: Access,
  clock: Clock,
  signal: AbortSignal,
  action: () => Promise<T>,
): Promise<T> {
  return inTurn(path, async () => {
    const locks = await loadLocks()
    const fd = await lock(locks, path, access, clock, signal)
    try {
      return await action()
    } finally {
      unlock(locks, fd)
    }
  })
}

function unlock(locks: KernelLocks, fd: number): void {
  try {
    // Closing the file is not enough: a child that is just being spawned may hold a copy of the descriptor, and with it
    // the lock.
    locks.unlock(fd)
  } finally {
    closeSync(fd)
  }
}

async function lock(
  locks: KernelLocks,
  path: string,
  access: Access,
  clock: Clock,
  signal: AbortSignal,
): Promise<number> {
  // A blocking lock call would occupy one of Node's few pool threads, so this polls. The file is reopened each time,
  // because someone may have replaced the lock file by hand.
  for (let tries = 1; ; tries++) {
    signal.throwIfAborted()
    const fd = openLockFile(path, access)
    let locked = false
    try {
      locked = lockNow(locks, fd, path) && isStillAt(fd, path)
      if (locked) return fd
    } finally {
      if (!locked) closeSync(fd)
    }
    // The holder keeps the lock for only a few milliseconds. The delay grows with each try, so that many waiting
    // processes do not poll too often.
    const delayMs = Math.min(Math.max(1, tries - 4), 16) * (0.5 + clock.random())
    await new Promise<void>((resolve) => clock.setTimer(delayMs, resolve))
  }
}

function lockNow(locks: KernelLocks, fd: number, path: string): boolean {
  try {
    return locks.tryLock(fd)
  } catch (cause) {
    throw new TenureError(
      'LOCK_UNAVAILABLE',
      `The kernel refuses to lock "${path}": ${messageOf(cause)}. ` +
        'Choose a directory on a local file system that supports locks.',
      { cause },
    )
  }
}

function isStillAt(fd: number, path: string): boolean {
  try {
    const held = fstatSync(fd, { bigint: true })
    const named = lstatSync(path, { bigint: true })
    return named.dev === held.dev && named.ino === held.ino
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false
    throw error
  }
}

function loadLocks(): Promise<KernelLocks> {
  return (loading ??= importLocks())
}

async function importLocks(): Promise<KernelLocks> {
  // Loading the addon on Deno would end the process without an error that a program could catch.
  if ('deno' in process.versions) {
    throw new TenureError(
      'LOCK_UNAVAILABLE',
      `The file store does not work on Deno: its kernel lock comes from "${lockPackage}", an addon that needs libuv, ` +
        'which Deno does not have. Run this program with Node.js or Bun, or choose another store.',
    )
  }
  try {
    return await loadKernelLocks()
  } catch (cause) {
    throw new TenureError(
      'LOCK_UNAVAILABLE',
      `The file store needs the package "${lockPackage}" for its kernel lock, but it cannot be loaded: ` +
        `${messageOf(cause)}. Run: npm install ${lockPackage}`,
      { cause },
    )
  }
}

const turns = new Map<string, Promise<unknown>>()

/** Queues the calls of one process, so that they do not compete with each other for the kernel's lock. */
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
