import { readFile, readlink } from 'node:fs/promises'

/** Names the clock that processes of one machine share until it restarts. */
export interface ClockDomain {
  readonly boot: string
  readonly machine: string
  readonly timeNamespace: string
}

/** A moment on that clock. */
export interface ClockReading extends ClockDomain {
  readonly ms: number
}

let known: Promise<ClockDomain | undefined> | undefined

/** The clock domain of this process, or undefined where the system does not tell when it was started (not Linux). */
export function ownClockDomain(): Promise<ClockDomain | undefined> {
  return (known ??= readClockDomain())
}

async function readClockDomain(): Promise<ClockDomain | undefined> {
  const [boot, machine, timeNamespace] = await Promise.all([
    readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => ''),
    // Images often lack a machine id, and kernels before 5.6 have no time namespaces; the boot id is still unique.
    readFile('/etc/machine-id', 'utf8').catch(() => ''),
    readlink('/proc/self/ns/time').catch(() => ''),
  ])
  if (!boot.trim()) return undefined
  return { boot: boot.trim(), machine: machine.trim(), timeNamespace }
}

/** Whether both ran under one kernel since one start, so that its sockets tell about each other's processes. */
export function sameKernel(one: ClockDomain | undefined, other: ClockDomain | undefined): boolean {
  return one !== undefined && one.boot === other?.boot && one.timeNamespace === other.timeNamespace
}

/**
 * What is left of a lease that was renewed at `renewed`; undefined if that time cannot be compared with ours: it was
 * read on another clock, or lies ahead of ours, which one clock cannot do.
 */
export function remainingMs(
  renewed: ClockReading | undefined,
  leaseDurationMs: number,
  now: ClockReading | undefined,
): number | undefined {
  if (!renewed || !now || !sameKernel(renewed, now) || renewed.machine !== now.machine) return undefined
  return renewed.ms > now.ms ? undefined : renewed.ms + leaseDurationMs - now.ms
}
