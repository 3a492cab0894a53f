import { bar, bold, color, dim, Screen } from '../shared/terminal.ts'
import { leaseDurationMs, machineMs, seconds, type Fleet, type Member } from './fleet.ts'

const barWidth = 20

/** The fleet as a live picture. */
export class FleetScreen {
  readonly #screen = new Screen()
  readonly #history: string[] = []
  readonly #fleet: Fleet

  constructor(fleet: Fleet) {
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

  /** `next` is what happens by itself, and when. */
  draw(next = ''): void {
    const { members } = this.#fleet
    const above = [
      bold('Tenure: three processes, one leader') + dim('  (they share a folder; no server runs)'),
      `The leader holds a lease of ${seconds(leaseDurationMs)} and renews it every second.`,
      'When it is gone, another takes over, with a higher term: whatever the old one',
      'still sends can be told from what the new one sends.',
      '',
      dim('name     pid      role      term  lease: how long it may lead, or must wait'),
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

function row({ name, child, condition, leads, status }: Member): string {
  if (!child || condition === 'gone') return dim(`${name}   -        gone, starts again in a moment`)
  const pid = String(child.pid).padEnd(9)
  const term = String(status?.term || '-').padStart(4)
  // What was left at its last report, less the time since: a paused process reports nothing, but its lease runs out.
  const leftMs = status ? Math.max(0, status.leaseEndsInMs - (machineMs() - status.atMs)) : 0
  const left = `${bar(leftMs / leaseDurationMs, barWidth)} ${seconds(leftMs)}`
  const line = (role: string) => `${name}   ${pid}${role.padEnd(10)}${term}  ${left}`
  if (condition === 'paused' || condition === 'cut off') return color('yellow', line(condition))
  if (condition === 'stopping') return dim(line('stopping'))
  return leads > 0 ? color('green', line('LEADER')) : line('standby')
}
