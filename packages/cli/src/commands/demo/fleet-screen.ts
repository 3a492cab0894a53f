import { bar, bold, color, dim, Screen } from '../../shared/terminal.ts'
import { leaseDurationMs, machineMs, seconds, type DemoFleet, type DemoMember } from './fleet.ts'

const barWidth = 20

/** Draws the fleet on a terminal and updates it in place. */
export class FleetScreen {
  readonly #screen = new Screen()
  readonly #history: string[] = []
  readonly #fleet: DemoFleet

  constructor(fleet: DemoFleet) {
    this.#fleet = fleet
  }

  open(): void {
    this.#screen.open()
  }

  close(): void {
    this.#screen.close()
  }

  add(line: string): void {
    this.#history.push(line)
    this.draw()
  }

  /** `next` announces the next automatic fault. */
  draw(next = ''): void {
    const { members } = this.#fleet
    const above = [
      bold('Tenure: three processes, one leader') + dim('  (they share a folder; there is no server)'),
      `The leader holds a lease of ${seconds(leaseDurationMs)} and renews it every second.`,
      'When it fails, another takes over with a higher term, so that a resource can',
      'tell a late write by the old leader from a write by the new one.',
      '',
      dim('name     pid      role      term  lease: how long it may lead or must wait'),
      ...members.map(row),
      '',
      ...members.map(({ name, condition, status }) => {
        const reports = status && (condition === 'runs' || condition === 'cut off')
        return dim(`${name}: ${reports ? status.summary : '-'}`)
      }),
      '',
      bold('What happened'),
    ]
    const keys = [
      ['k', 'kill'],
      ['p', 'pause'],
      ['c', 'cut off'],
      ['s', 'stop the leader'],
      ['q', 'quit'],
    ].map(([key = '', does = '']) => `${bold(key)} ${does}`)
    this.#screen.draw(above, this.#history, ['', keys.join('  '), dim(next)])
  }
}

function row({ name, child, condition, leads, status }: DemoMember): string {
  if (!child || condition === 'gone') return dim(`${name}   -        gone, restarts shortly`)
  const pid = String(child.pid).padEnd(9)
  const term = String(status?.term || '-').padStart(4)
  // A paused process sends no reports, but its lease keeps running. So subtract the time since its last report.
  const leftMs = status ? Math.max(0, status.leaseEndsInMs - (machineMs() - status.atMs)) : 0
  const left = `${bar(leftMs / leaseDurationMs, barWidth)} ${seconds(leftMs)}`
  const line = (role: string) => `${name}   ${pid}${role.padEnd(10)}${term}  ${left}`
  if (condition === 'paused' || condition === 'cut off') return color('yellow', line(condition))
  if (condition === 'stopping') return dim(line('stopping'))
  return leads > 0 ? color('green', line('LEADER')) : line('standby')
}
