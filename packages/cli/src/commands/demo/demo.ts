import { settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { every } from '../../shared/clock.ts'
import { print } from '../../shared/output.ts'
import { interruptKey, listenToKeys } from '../../shared/terminal.ts'
import { FleetScreen } from './fleet-screen.ts'
import { DemoFleet, faults, inMs, machineMs, seconds, type DemoFault } from './fleet.ts'
import { demoSettings } from './command.ts'

const keys: Readonly<Record<string, DemoFault>> = { k: 'kill', p: 'pause', c: 'cut', s: 'stop' }
const signals = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

/** Runs three candidates and injects a fault into the leader every few seconds, or when a key is pressed. */
export function demo(flags: Sources['flags']): void {
  const live = process.stdout.isTTY
  const { endAfter, harmEvery } = settingsFrom(demoSettings, flags)
  const endAfterMs = endAfter ?? (live ? Infinity : 20_000)
  const order = Object.keys(faults) as DemoFault[]
  const startedAtMs = machineMs()
  let harmed = 0
  let nextAtMs = Infinity
  let ending = false

  const log = (text: string) => {
    const line = `[${seconds(machineMs() - startedAtMs).padStart(6)}] ${text}`
    if (live) screen.add(line)
    else print(line)
  }
  // The next fault is scheduled after an election, so that each failover can be watched to its end.
  const fleet = new DemoFleet(log, () => (nextAtMs = machineMs() + harmEvery))
  const screen = new FleetScreen(fleet)

  const injectFault = (how: DemoFault) => {
    nextAtMs = Infinity
    fleet.injectFault(how)
  }
  const tick = () => {
    const nowMs = machineMs()
    if (nowMs >= startedAtMs + endAfterMs) return void end(0)
    const next = order[harmed % order.length] ?? 'kill'
    const words = next === 'cut' ? 'cut off' : next
    screen.draw(nextAtMs === Infinity ? '' : `automatic: ${words} in ${seconds(Math.max(0, nextAtMs - nowMs))}`)
    if (nowMs < nextAtMs) return
    harmed += 1
    injectFault(next)
  }
  const end = async (code: number) => {
    if (ending) return
    ending = true
    stopTicking()
    await fleet.end()
    screen.close()
    print(summary(fleet, machineMs() - startedAtMs))
    process.exit(code)
  }

  // Restore the terminal and end all candidates no matter how this program exits.
  process.on('exit', () => {
    screen.close()
    fleet.endNow()
  })
  for (const [signal, code] of Object.entries(signals)) process.on(signal, () => void end(code))
  // The reader of the output is gone.
  process.stdout.on('error', () => void end(0))
  if (live) {
    screen.open()
    listenToKeys((key) => {
      const how = keys[key]
      if (how) injectFault(how)
      if (key === 'q' || key === interruptKey) void end(0)
    })
  } else {
    print('Tenure: three processes, one leader. They share a local folder; there is no server.')
  }
  fleet.start()
  const stopTicking = every(100, tick)
}

function summary({ takeovers, highestTerm }: DemoFleet, tookMs: number): string {
  const times = [...new Set(takeovers.map(({ fault }) => fault))].map((fault) => {
    const sorted = takeovers.filter((one) => one.fault === fault).toSorted((a, b) => a.tookMs - b.tookMs)
    return `${faults[fault]}: ${inMs(sorted[Math.floor(sorted.length / 2)]?.tookMs ?? 0)}`
  })
  const details = times.length > 0 ? ` (median after the leader was ${times.join(', ')})` : ''
  const count = takeovers.length === 1 ? '1 takeover' : `${takeovers.length} takeovers`
  return `${count} in ${seconds(tookMs)}, terms 1 to ${highestTerm}${details}.`
}
