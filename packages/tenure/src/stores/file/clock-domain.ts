import { readFile, readlink } from 'node:fs/promises'

/** Identifies the clock that the processes of one machine share until it reboots. */
export interface ClockDomain {
  readonly boot: string
  readonly machine: string
  readonly timeNamespace: string
}

/** A point in time on that clock. */
export interface ClockReading extends ClockDomain {
  readonly ms: number
}

let known: Promise<ClockDomain | undefined> | undefined

/** The clock domain of this process. Undefined if the system does not provide a boot id (not Linux). */
export function ownClockDomain(): Promise<ClockDomain | undefined> {
  return (known ??= readClockDomain())
}

async function readClockDomain(): Promise<ClockDomain | undefined> {
  const [boot, machine, timeNamespace] = await Promise.all([
    readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => ''),
    // Images often lack a machine id, and kernels before 5.6 have no time namespaces. The boot id alone is still
    // unique.
    readFile('/etc/machine-id', 'utf8').catch(() => ''),
    readlink('/proc/self/ns/time').catch(() => ''),
  ])
  if (!boot.trim()) return undefined
  return { boot: boot.trim(), machine: machine.trim(), timeNamespace }
}

/**
 * Whether both processes ran under the same kernel since the same boot, so that a socket shows whether the other one is
 * alive.
 */
export function sameKernel(one: ClockDomain | undefined, other: ClockDomain | undefined): boolean {
  return one !== undefined && one.boot === other?.boot && one.timeNamespace === other.timeNamespace
}

/**
 * Time left on a lease that was renewed at `renewed`. Undefined if the two readings cannot be compared: they come from
 * different clocks, or `renewed` is ahead of `now`, which is impossible on one clock.
 */
export function remainingMs(
  renewed: ClockReading | undefined,
  leaseDurationMs: number,
  now: ClockReading | undefined,
): number | undefined {
  if (!renewed || !now || !sameKernel(renewed, now) || renewed.machine !== now.machine) return undefined
  return renewed.ms > now.ms ? undefined : renewed.ms + leaseDurationMs - now.ms
}
